// Colours of code, by the languages of the editor. In a chunk of its own.
import { LanguageDescription, type LanguageSupport } from '@codemirror/language';
import { languages } from '@codemirror/language-data';
import { highlightCode, tagHighlighter, tags } from '@lezer/highlight';

/** A text and its class. */
export type Piece = [text: string, kind: string];

const MOST_MS = 60;

const colours = tagHighlighter([
  {
    tag: [tags.keyword, tags.controlKeyword, tags.operatorKeyword, tags.modifier, tags.definitionKeyword],
    class: 'k',
  },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], class: 'st' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.unit], class: 'nu' },
  { tag: [tags.comment, tags.meta], class: 'co' },
  {
    tag: [
      tags.function(tags.variableName),
      tags.function(tags.propertyName),
      tags.typeName,
      tags.className,
      tags.tagName,
      tags.attributeName,
    ],
    class: 'fn',
  },
]);

/** Names that models write and the list does not have. */
const ALIASES: Record<string, string> = {
  console: 'shell',
  zsh: 'shell',
  shellsession: 'shell',
  jsonc: 'json',
  json5: 'json',
};

/** By the name behind a fence, or by the end of a file's name. */
function find(name: string): LanguageDescription | null {
  const given = ALIASES[name.toLowerCase()] ?? name;
  return (
    LanguageDescription.matchLanguageName(languages, given, false) ??
    LanguageDescription.matchFilename(languages, given.includes('.') ? given : `x.${given}`)
  );
}

/** Null if the language is not known. What takes too long has colours at its beginning only. */
export async function highlight(text: string, name: string): Promise<Piece[] | null> {
  const support: LanguageSupport | undefined = await find(name)?.load();
  if (!support) return null;
  const parse = support.language.parser.startParse(text);
  const end = performance.now() + MOST_MS;
  let tree = parse.advance();
  while (!tree) {
    if (parse.stoppedAt === null && performance.now() > end) parse.stopAt(parse.parsedPos);
    tree = parse.advance();
  }
  const pieces: Piece[] = [];
  const put = (words: string, kind: string) => {
    const last = pieces.at(-1);
    if (last && last[1] === kind) last[0] += words;
    else pieces.push([words, kind]);
  };
  highlightCode(text, tree, colours, put, () => put('\n', ''));
  return pieces;
}
