// Characters that a reader cannot see, but that change what is seen or hide something: made visible. Pure.

// Controls but tab and line feed; zero-width and other invisible characters; marks that turn the direction of text; tags
// and variation selectors, in which whole texts can be hidden.
const HIDDEN = new RegExp(
  `[${[
    '\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f',
    '\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff9-\\ufffb',
    '\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}',
  ].join('')}]+`,
  'gu',
);

const PICTURE = /(?:[\p{Extended_Pictographic}\p{Emoji_Modifier}]|\ufe0f)$/u;
const PICTURE_NEXT = /^\p{Extended_Pictographic}/u;
// Scripts whose spelling needs joiners.
const JOINED =
  /[\p{Script=Arabic}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}]$/u;

/** Hidden characters show as `·`. One that a picture or a script needs in this place stays. */
export function clean(text: string): string {
  const lines = text.includes('\r') ? text.replace(/\r\n?/g, '\n') : text;
  return lines.replace(HIDDEN, (run: string, at: number) => {
    const before = lines.slice(Math.max(0, at - 2), at);
    const after = lines.slice(at + run.length, at + run.length + 2);
    // A sign as picture or as text, alone or before what joins it to the next.
    if (/^[\ufe0e\ufe0f]$/.test(run) && /\S$/u.test(before)) return run;
    if (/^\ufe0f?\u200d$/.test(run) && PICTURE.test(before + run[0]) && PICTURE_NEXT.test(after)) return run;
    if (run === '\u200d' && PICTURE.test(before) && PICTURE_NEXT.test(after)) return run;
    if (/^[\u200c\u200d]$/.test(run) && JOINED.test(before)) return run;
    return '·';
  });
}

const NAMED: Record<string, string> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
  ndash: '–',
  mdash: '—',
  hellip: '…',
  larr: '←',
  rarr: '→',
  times: '×',
  copy: '©',
  deg: '°',
  euro: '€',
};

/** References to characters. The lexer decodes those with numbers, so that hidden ones can come from it, too. */
export function unescapeText(text: string): string {
  if (!text.includes('&')) return clean(text);
  const decoded = text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-z]{2,6}));/g, (all, ten, sixteen, name) => {
    if (name) return Object.hasOwn(NAMED, name) ? NAMED[name]! : all;
    const code = ten ? Number(ten) : Number.parseInt(sixteen, 16);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : '\ufffd';
  });
  return clean(decoded);
}
