// A text in Markdown as blocks. A text that grows keeps its blocks but the last ones, so that writing stays linear. Pure.
import type { Links, Token } from 'marked';
import { clean } from './clean';
import { convert } from './convert';
import { BoundedLexer } from './lexer';
import type { Block } from './tree';

/** Characters that are read as Markdown; what follows is shown as it is. */
export const LONGEST = 131_072;
/** Characters that are shown at all. */
const LONGEST_SHOWN = 1_048_576;
const MOST_BLOCKS = 2000;

export interface Top {
  /** Where it begins: its key among its siblings. */
  at: number;
  block: Block;
}

export interface Document {
  blocks: readonly Top[];
  /** What is shown as it is, behind the blocks. */
  rest: string;
  /** Whether not even that is all. */
  isCut: boolean;
}

interface Piece {
  at: number;
  raw: string;
  /** null: it is nothing to see. */
  top: Top | null;
}

export class Parser {
  #text = '';
  #pieces: Piece[] = [];
  #links: Links = {};
  #last: { given: string; made: Document } | null = null;

  /** The same objects for blocks that stay the same, if `text` goes on where the last one ended. */
  grow(text: string): Document {
    if (this.#last?.given === text) return this.#last.made;
    const shown = clean(text.length > LONGEST_SHOWN ? text.slice(0, LONGEST_SHOWN) : text);
    const read = shown.length > LONGEST ? cutAtLine(shown) : shown;
    const kept = this.#kept(read);
    this.#pieces.length = kept;
    const from = kept === 0 ? 0 : endOf(this.#pieces[kept - 1]!);
    if (kept === 0) this.#links = {};
    this.#text = read;
    this.#pieces.push(...this.#lex(read.slice(from), from));
    const made = this.#document(shown, text.length > LONGEST_SHOWN);
    this.#last = { given: text, made };
    return made;
  }

  /** How many pieces cannot change any more. The last two may: a list goes on behind an empty line, a text becomes a heading. */
  #kept(read: string): number {
    let count = this.#pieces.length;
    for (let open = 2; count > 0 && open > 0; count--) if (this.#pieces[count - 1]!.top) open--;
    if (count === 0) return 0;
    const end = endOf(this.#pieces[count - 1]!);
    return read.startsWith(this.#text.slice(0, end)) ? count : 0;
  }

  #lex(text: string, from: number): Piece[] {
    const lexer = new BoundedLexer();
    Object.assign(lexer.tokens.links, this.#links);
    let tokens: Token[];
    try {
      tokens = lexer.lex(text);
      this.#links = lexer.tokens.links;
    } catch {
      return [{ at: from, raw: text, top: { at: from, block: { t: 'plain', text } } }];
    }
    let at = from;
    return tokens.map((token) => {
      const begin = at;
      at += token.raw.length;
      const block = convert(token);
      return { at: begin, raw: token.raw, top: block && { at: begin, block } };
    });
  }

  #document(shown: string, isCut: boolean): Document {
    const blocks: Top[] = [];
    let end = this.#text.length;
    for (const { top } of this.#pieces) {
      if (!top) continue;
      if (blocks.length === MOST_BLOCKS) {
        end = top.at;
        break;
      }
      blocks.push(top);
    }
    return { blocks, rest: shown.slice(end), isCut };
  }
}

const endOf = ({ at, raw }: Piece): number => at + raw.length;

function cutAtLine(text: string): string {
  const end = text.lastIndexOf('\n', LONGEST);
  return text.slice(0, end > LONGEST / 2 ? end + 1 : LONGEST);
}

export const parse = (text: string): Document => new Parser().grow(text);
