// Tokens of marked as our own tree. Everything is judged here: links, images, HTML, sizes. Pure.
import type { Token, Tokens } from 'marked';
import { clean, unescapeText } from './clean';
import { DEEPEST } from './lexer';
import { relativePath, shownHost, target } from './links';
import { type Block, type Inline, wordsOf } from './tree';

const MOST_ITEMS = 1000;
const MOST_ROWS = 200;
const MOST_COLUMNS = 24;
/** Parts of one block of the top level. */
const MOST_PARTS = 5000;
const LONGEST_ADDRESS = 200;

interface Budget {
  left: number;
}

export function convert(token: Token): Block | null {
  return block(token, 0, { left: MOST_PARTS });
}

function blocks(tokens: readonly Token[] | undefined, depth: number, budget: Budget): Block[] {
  const made: Block[] = [];
  for (const token of tokens ?? []) {
    const one = block(token, depth + 1, budget);
    if (one) made.push(one);
  }
  return made;
}

function block(token: Token, depth: number, budget: Budget): Block | null {
  budget.left--;
  if (depth > DEEPEST || budget.left < 0) return token.raw.trim() ? { t: 'plain', text: token.raw } : null;
  switch (token.type) {
    case 'space':
    case 'def':
    case 'checkbox':
      return null;
    case 'heading': {
      const { depth: level, tokens } = token as Tokens.Heading;
      return { t: 'heading', level, children: inlines(tokens, 0, budget) };
    }
    case 'paragraph':
      return { t: 'paragraph', children: inlines((token as Tokens.Paragraph).tokens, 0, budget) };
    case 'code': {
      const { lang, text } = token as Tokens.Code;
      return { t: 'code', language: languageOf(lang), text };
    }
    case 'blockquote':
      return { t: 'quote', children: blocks((token as Tokens.Blockquote).tokens, depth, budget) };
    case 'hr':
      return { t: 'rule' };
    case 'list':
      return list(token as Tokens.List, depth, budget);
    case 'table':
      return table(token as Tokens.Table, budget);
    case 'text': {
      const { tokens, text } = token as Tokens.Text;
      return { t: 'line', children: tokens ? inlines(tokens, 0, budget) : [{ t: 'text', text: unescapeText(text) }] };
    }
    case 'html':
      return { t: 'html', text: token.raw.replace(/\n+$/, '') };
    default:
      return { t: 'plain', text: token.raw };
  }
}

const languageOf = (info: string | undefined): string => /^[\w+#.-]{1,24}/.exec(info ?? '')?.[0] ?? '';

function list({ ordered, start, items }: Tokens.List, depth: number, budget: Budget): Block {
  const made = [];
  for (const item of items.slice(0, MOST_ITEMS)) {
    if (budget.left < 0) break;
    made.push({ done: item.task ? item.checked === true : null, children: blocks(item.tokens, depth, budget) });
  }
  const first = Number(start);
  const number = Number.isSafeInteger(first) && first < 1e9 ? first : 1;
  return { t: 'list', start: ordered ? number : null, items: made, left: items.length - made.length };
}

function table({ header, rows, align }: Tokens.Table, budget: Budget): Block {
  const cells = (row: Tokens.TableCell[]) => row.slice(0, MOST_COLUMNS).map((cell) => inlines(cell.tokens, 0, budget));
  const head = cells(header);
  const made = [];
  for (const row of rows.slice(0, MOST_ROWS)) {
    if (budget.left < 0) break;
    made.push(cells(row));
  }
  return { t: 'table', align: align.slice(0, MOST_COLUMNS), head, rows: made, left: rows.length - made.length };
}

function inlines(tokens: readonly Token[] | undefined, depth: number, budget: Budget): Inline[] {
  if (!tokens) return [];
  const made: Inline[] = [];
  for (const [i, token] of tokens.entries()) {
    budget.left--;
    if (depth > DEEPEST || budget.left < 0) {
      const raw = tokens.slice(i).map((one) => one.raw);
      made.push({ t: 'text', text: raw.join('') });
      break;
    }
    made.push(inline(token, depth + 1, budget));
  }
  return made;
}

function inline(token: Token, depth: number, budget: Budget): Inline {
  switch (token.type) {
    case 'strong':
    case 'em':
    case 'del':
      return { t: token.type, children: inlines((token as Tokens.Strong).tokens, depth, budget) };
    case 'codespan':
      return { t: 'code', text: (token as Tokens.Codespan).text };
    case 'br':
      return { t: 'br' };
    case 'escape':
    case 'text': {
      const { tokens, text } = token as Tokens.Text;
      if (tokens?.length) return { t: 'del', children: inlines(tokens, depth, budget) };
      return { t: 'text', text: unescapeText(text) };
    }
    case 'link':
      return link(token as Tokens.Link, depth, budget);
    case 'image':
      return image(token as Tokens.Image);
    case 'html':
      return { t: 'html', text: token.raw };
    default:
      return { t: 'text', text: token.raw };
  }
}

const bounded = (address: string): string =>
  address.length > LONGEST_ADDRESS ? `${address.slice(0, LONGEST_ADDRESS)}…` : address;

function link({ href, tokens, text }: Tokens.Link, depth: number, budget: Budget): Inline {
  const children: Inline[] = tokens?.length ? inlines(tokens, depth, budget) : [{ t: 'text', text }];
  const address = unescapeText(href ?? '');
  const to = target(address);
  if (to) return { t: 'link', href: to.href, shown: shownHost(to, wordsOf(children)), children };
  return { t: 'address', address: bounded(address), path: relativePath(address), children };
}

function image({ href, text }: Tokens.Image): Inline {
  const address = unescapeText(href ?? '');
  const to = target(address);
  const web = to && !to.href.startsWith('mailto:') ? to : null;
  return {
    t: 'image',
    alt: clean(unescapeText(text ?? '')).slice(0, 300),
    href: web?.href ?? null,
    path: web ? null : relativePath(address),
    shown: web?.host ?? bounded(/^data:/i.test(address.trim()) ? 'data:' : address),
  };
}
