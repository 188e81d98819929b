// Rows of a CSV or TSV text. Quotes as in RFC 4180; what breaks the rules is taken as it stands.

export interface Csv {
  rows: string[][];
  columns: number;
  /** There was more than is shown. */
  truncated: boolean;
}

export const MAX_ROWS = 100_000;
export const MAX_COLUMNS = 200;
const MAX_CELL = 2000;

/** The separator that the first line has most of. */
export function separatorOf(text: string): string {
  const line = text.slice(0, 10_000).split(/\r?\n/, 1)[0] ?? '';
  const counts = [',', '\t', ';', '|'].map((one) => [one, line.split(one).length] as const);
  return counts.reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}

export function parseCsv(text: string, separator: string = separatorOf(text)): Csv {
  const rows: string[][] = [];
  let row: string[] = [];
  let columns = 0;
  let truncated = false;
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  const push = (cell: string) => {
    if (row.length < MAX_COLUMNS) row.push(cell.length > MAX_CELL ? `${cell.slice(0, MAX_CELL)}…` : cell);
    else truncated = true;
  };
  const end = () => {
    if (row.length > 1 || row[0] !== '') {
      columns = Math.max(columns, row.length);
      rows.push(row);
    }
    row = [];
  };
  while (at < text.length) {
    if (rows.length >= MAX_ROWS) return { rows, columns, truncated: true };
    if (text[at] === '"') {
      let cell = '';
      at += 1;
      for (;;) {
        const quote = text.indexOf('"', at);
        cell += text.slice(at, quote < 0 ? text.length : quote);
        at = quote < 0 ? text.length : quote + 1;
        if (quote < 0 || text[at] !== '"') break;
        cell += '"';
        at += 1;
      }
      const stop = next(text, at, separator);
      push(cell + text.slice(at, stop));
      at = stop;
    } else {
      const stop = next(text, at, separator);
      push(text.slice(at, stop));
      at = stop;
    }
    if (at >= text.length) break;
    if (text[at] === separator) {
      at += 1;
      if (at >= text.length) push('');
      continue;
    }
    at += text[at] === '\r' && text[at + 1] === '\n' ? 2 : 1;
    end();
  }
  if (row.length > 0) end();
  return { rows, columns, truncated };
}

function next(text: string, from: number, separator: string): number {
  let at = from;
  while (at < text.length && text[at] !== separator && text[at] !== '\n' && text[at] !== '\r') at += 1;
  return at;
}
