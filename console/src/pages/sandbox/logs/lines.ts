// Lines of a log: kept in order, without doubles, and commands with what became of them. Pure.
import type { LogEntry } from '../../../api';
import { plain } from '../../../format/plain';

export const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type Level = (typeof LEVELS)[number];

export interface Line {
  key: string;
  /** Microseconds since 1970. */
  at: number;
  timestamp: string;
  level: Level;
  /** `lifecycle` or `guest`. */
  source: string;
  pid: string | null;
  /** One line, bounded, safe to read. */
  text: string;
  entry: LogEntry;
}

/** Fractions have any number of digits, so that times cannot be compared as text. */
export function micros(timestamp: string): number {
  const ms = Date.parse(timestamp);
  if (Number.isNaN(ms)) return 0;
  const digits = /\.(\d+)/.exec(timestamp)?.[1] ?? '';
  return Math.floor(ms / 1000) * 1_000_000 + Number(digits.padEnd(6, '0').slice(0, 6));
}

const keyOf = (entry: LogEntry): string =>
  `${entry.timestamp}|${entry.fields?.pid ?? ''}|${entry.message.length}|${entry.message.slice(0, 160)}`;

function toLine(entry: LogEntry, key: string): Line {
  const level = LEVELS.find((one) => one === entry.level) ?? 'info';
  return {
    key,
    at: micros(entry.timestamp),
    timestamp: entry.timestamp,
    level,
    source: entry.fields?.logger ?? '',
    pid: entry.fields?.pid ?? null,
    text: plain(entry.message, 1000).replace(/\s*\n\s*/g, ' ⏎ '),
    entry,
  };
}

/** Lines with a page added; the same array if it has nothing new. `keys` are those of the lines, and is kept up. */
export function merge(lines: readonly Line[], keys: Set<string>, page: readonly LogEntry[]): readonly Line[] {
  const fresh: Line[] = [];
  for (const entry of page) {
    const key = keyOf(entry);
    if (keys.has(key)) continue;
    keys.add(key);
    fresh.push(toLine(entry, key));
  }
  if (fresh.length === 0) return lines;
  fresh.sort((a, b) => a.at - b.at);
  const [first] = lines;
  const last = lines.at(-1);
  if (!first || !last || (fresh[0]?.at ?? 0) >= last.at) return [...lines, ...fresh];
  if ((fresh.at(-1)?.at ?? 0) <= first.at) return [...fresh, ...lines];
  return [...lines, ...fresh].sort((a, b) => a.at - b.at);
}

export interface Filter {
  level: string;
  source: string;
  text: string;
}

export function filterLines(lines: readonly Line[], { level, source, text }: Filter): readonly Line[] {
  const least = LEVELS.indexOf(level as Level);
  const wanted = text.toLowerCase();
  if (least <= 0 && !source && !wanted) return lines;
  return lines.filter(
    (line) =>
      (least <= 0 || LEVELS.indexOf(line.level) >= least) &&
      (!source || line.source === source) &&
      (!wanted || line.text.toLowerCase().includes(wanted)),
  );
}

export interface Outcome {
  /** `exit status 3`, or how else it ended; null while it runs. */
  code: string | null;
  failed: boolean;
  seconds: number;
}

const STARTED = /^Process \d+ started: /;
const ENDED = /^Process \d+ ended: (.*)$/;
const KILLED = /^Process \d+ was killed/;

/** What became of each command, by the key of the line that says it started. */
export function outcomes(lines: readonly Line[]): Map<string, Outcome> {
  const open = new Map<string, Line>();
  const found = new Map<string, Outcome>();
  for (const line of lines) {
    if (line.source !== 'guest' || line.pid === null) continue;
    if (STARTED.test(line.text)) {
      open.set(line.pid, line);
      found.set(line.key, { code: null, failed: false, seconds: 0 });
      continue;
    }
    const start = open.get(line.pid);
    const ended = ENDED.exec(line.text);
    if (!start || !(ended || KILLED.test(line.text))) continue;
    const code = ended ? (/^exit status (\d+)/.exec(ended[1] ?? '')?.[1] ?? ended[1] ?? '') : 'killed';
    found.set(start.key, { code, failed: code !== '0', seconds: (line.at - start.at) / 1e6 });
    open.delete(line.pid);
  }
  return found;
}

/** For the clipboard and files. Times are UTC, as in the API. */
export const asText = (lines: readonly Line[]): string =>
  lines.map((line) => `${line.timestamp} ${line.level.padEnd(5)} ${plain(line.entry.message, 100_000)}\n`).join('');
