// Text that somebody else wrote, made safe to read: bounded, without escape sequences, and with nothing invisible in it.

const SEQUENCES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])/g;
// Controls but tab and line feed; zero-width and other invisible characters; marks that turn the direction of text.
const HIDDEN = new RegExp(
  [
    '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e]',
    '[\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]',
    '[\\u{e0000}-\\u{e007f}]',
  ].join('|'),
  'gu',
);

/** At most `most` characters. Colours go, a carriage return keeps what was printed last, hidden characters show as `·`. */
export function plain(text: string, most = 2000): string {
  const bounded = text.length > most * 4 ? text.slice(0, most * 4) : text;
  const shown = afterReturns(bounded.replace(SEQUENCES, '')).replace(HIDDEN, '·');
  if (shown.length <= most && bounded.length === text.length) return shown;
  return `${shown.slice(0, most)}…`;
}

/** Progress bars print over their line: the last state counts. */
function afterReturns(text: string): string {
  if (!text.includes('\r')) return text;
  return text
    .split('\n')
    .map((line) => line.split('\r').findLast((piece) => piece !== '') ?? '')
    .join('\n');
}

/** For names in a line: without line breaks. */
export const plainName = (text: string, most = 120): string => plain(text.replace(/\s+/g, ' ').trim(), most);
