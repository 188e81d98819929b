// Reads the text of an .env file. Pure.

const LINE = /^\s*(?:export\s+)?([A-Za-z_][\w.-]*)\s*=\s*(.*)$/;

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t' };

/** Names and values, in order; of a name that is there twice, the last. `wrong`: numbers of lines that are neither. */
export function parseEnv(text: string): { entries: [string, string][]; wrong: number[] } {
  const found = new Map<string, string>();
  const wrong: number[] = [];
  const lines = text
    .replaceAll('\r\n', '\n')
    .replace(/^\ufeff/, '')
    .split('\n');
  for (let i = 0; i < lines.length; i += 1) {
    const line = lines[i] ?? '';
    if (!line.trim() || line.trimStart().startsWith('#')) continue;
    const match = LINE.exec(line);
    if (!match) {
      wrong.push(i + 1);
      continue;
    }
    const [, name = '', rest = ''] = match;
    const quote = rest[0];
    if (quote !== '"' && quote !== "'") {
      found.set(name, rest.replace(/\s+#.*$/, '').trim());
      continue;
    }
    // A quoted value may have several lines.
    let value = rest.slice(1);
    const first = i;
    while (endOf(value, quote) < 0 && i + 1 < lines.length) {
      i += 1;
      value += `\n${lines[i]}`;
    }
    const end = endOf(value, quote);
    if (end < 0) {
      wrong.push(first + 1);
      i = first;
      continue;
    }
    value = value.slice(0, end);
    found.set(name, quote === '"' ? value.replace(/\\(.)/gs, (_, char: string) => ESCAPES[char] ?? char) : value);
  }
  return { entries: [...found], wrong };
}

/** Where a quoted value ends; -1 if it does not. */
function endOf(value: string, quote: string): number {
  for (let i = 0; i < value.length; i += 1) {
    if (value[i] === '\\' && quote === '"') i += 1;
    else if (value[i] === quote) return i;
  }
  return -1;
}

/** Whether a pasted text is more than one value. */
export const looksLikeEnv = (text: string): boolean => /[\n=]/.test(text.trim()) && parseEnv(text).entries.length > 0;
