// Words of models, sandboxes and other people: bounded, and with nothing in them that hides or turns text. Pure.

// Joiners stay: emoji and many scripts need them.
const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

export function visible(text: string, most = 20_000): string {
  const clean = text.slice(0, most).replaceAll('\r\n', '\n').replace(HIDDEN, '·');
  return text.length > most ? `${clean}…` : clean;
}

/** For one line. */
export const visibleLine = (text: string, most = 200): string =>
  visible(
    text
      .slice(0, most * 4)
      .replace(/\s+/g, ' ')
      .trim(),
    most,
  );

/** Arguments of a call in one line: its most telling value, or all of it. */
export function argumentLine(value: unknown): string {
  if (typeof value === 'string') return visibleLine(value);
  if (typeof value !== 'object' || value === null) return '';
  const given = value as Record<string, unknown>;
  for (const name of ['command', 'path', 'pattern', 'query', 'url', 'name', 'question']) {
    if (typeof given[name] === 'string') return visibleLine(given[name]);
  }
  const text = JSON.stringify(value);
  return text === '{}' ? '' : visibleLine(text);
}

/** Arguments as they are, for those who want to see everything. */
export function argumentText(value: unknown, most = 20_000): string {
  if (typeof value === 'string') return visible(value, most);
  return visible(JSON.stringify(value, null, 2) ?? '', most);
}

const VERBS =
  /^(Search for|Apply a patch to|Link to|(?:Start|Restart|Stop|Look at|Logs of) service|(?:Stop|Wait for|Look at) command|[A-Z][a-z]+) (.+)$/s;

/** A title as verb and object: "Run" and "npm test". */
export function titleParts(title: string, name: string): { verb: string; object: string } {
  const line = visibleLine(title, 300);
  if (!line) return { verb: visibleLine(name.replace(/^sandbox_/, '').replaceAll('_', ' '), 80), object: '' };
  const found = name.startsWith('sandbox_') ? VERBS.exec(line) : null;
  return found ? { verb: found[1]!, object: found[2]! } : { verb: line, object: '' };
}

/** Begins with a capital and ends with a full stop. */
export function sentence(text: string, most = 2000): string {
  const shown = visible(text.trim(), most);
  const begun = shown.charAt(0).toUpperCase() + shown.slice(1);
  return !begun || /[.!?…:]$/.test(begun) ? begun : `${begun}.`;
}
