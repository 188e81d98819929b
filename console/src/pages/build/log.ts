// The log of a build as it grows, and the steps that it tells of. Pure.
import type { BuildLogEntry } from '../../api';
import type { State } from '../../format/sandbox';

/** Lines that are kept: a build may print for an hour. */
export const MOST_LINES = 50_000;

export interface Log {
  lines: readonly BuildLogEntry[];
  /** Lines before the first of `lines` that are not kept. */
  dropped: number;
}

export const EMPTY: Log = { lines: [], dropped: 0 };

/** How many lines there were in all: where the next ones begin. */
export const offsetOf = (log: Log): number => log.dropped + log.lines.length;

/** Adds lines that begin at `start`. What is known is skipped; after a gap nothing is added, and it is asked for again. */
export function append(log: Log, start: number, added: readonly BuildLogEntry[], most = MOST_LINES): Log {
  const known = offsetOf(log) - start;
  if (known < 0 || known >= added.length) return log;
  const lines = [...log.lines, ...added.slice(known)];
  const over = Math.max(0, lines.length - most);
  return { lines: over > 0 ? lines.slice(over) : lines, dropped: log.dropped + over };
}

export interface Step {
  /** `base`, `finalize` or a number. */
  id: string;
  title: string;
  cached: boolean;
  state: State;
  /** Index of its first line in the whole log. */
  line: number;
  startedAt: number;
  /** Milliseconds; null while it runs. */
  took: number | null;
}

interface Seen {
  id: string;
  title: string;
  cached: boolean;
  line: number;
  stage: string;
  number: number;
  total: number;
  startedAt: number;
  lastAt: number;
}

const TITLE = /^(CACHED )?\[(?:([^\]\s]+) )?(\d+)\/(\d+)\] (.*)$/s;

/** Remembers the steps while lines come, so that a long log is read once. */
export class Steps {
  #seen = new Map<string, Seen>();
  #read = 0;

  read(log: Log): void {
    for (let at = Math.max(this.#read, log.dropped); at < offsetOf(log); at++) {
      const line = log.lines[at - log.dropped]!;
      if (line.step) this.#take(line.step, line, at);
    }
    this.#read = offsetOf(log);
  }

  /** Only the first line of a step is its title: what a step prints cannot pretend to be another. */
  #take(id: string, line: BuildLogEntry, at: number): void {
    const time = Date.parse(line.timestamp);
    const known = this.#seen.get(id);
    if (known) {
      known.lastAt = Math.max(known.lastAt, time);
      return;
    }
    const parts = TITLE.exec(line.message);
    const [, cached, stage, number, total, text] = parts ?? [];
    this.#seen.set(id, {
      id,
      title: text ?? line.message.replace(/^CACHED /, ''),
      cached: parts ? cached !== undefined : line.message.startsWith('CACHED '),
      line: at,
      stage: id === 'base' || id === 'finalize' ? id : (stage ?? ''),
      number: Number(number ?? 0),
      total: Number(total ?? 0),
      startedAt: time,
      lastAt: time,
    });
  }

  list(status: string, failedStep: string | null, finishedAt: number | null): Step[] {
    const seen = [...this.#seen.values()].sort((a, b) => a.line - b.line);
    return seen.map((step, i) => {
      const next = seen.slice(i + 1).find((other) => other.stage === step.stage) ?? null;
      const after = seen[i + 1] ?? null;
      const running = status === 'building' && next === null && (after === null || step.number < step.total);
      const failed = status === 'error' && step.id === failedStep;
      const cut = status === 'error' && !failed && next === null && step.number < step.total;
      const end = next?.startedAt ?? Math.max(step.lastAt, after?.startedAt ?? finishedAt ?? step.lastAt);
      const state: State = failed ? 'failed' : running ? 'creating' : cut ? 'stopped' : 'done';
      return {
        id: step.id,
        title: step.title,
        cached: step.cached,
        state,
        line: step.line,
        startedAt: step.startedAt,
        took: running ? null : Math.max(0, end - step.startedAt),
      };
    });
  }

  /** Of the numbered steps: how many have begun, and how many there are in the stages that have. */
  progress(): { at: number; of: number } {
    const stages = new Map<string, number>();
    let at = 0;
    for (const step of this.#seen.values()) {
      if (step.number === 0) continue;
      at += 1;
      stages.set(step.stage, step.total);
    }
    return { at, of: [...stages.values()].reduce((sum, total) => sum + total, 0) };
  }
}

export interface Reason {
  /** What happened. */
  text: string;
  lastLines: string[];
  hint: string | null;
}

/** The parts of a failure's message: "…\nIts last lines:\n…\nHint: …". */
export function reasonOf(message: string): Reason {
  const hintAt = message.lastIndexOf('\nHint: ');
  const hint = hintAt < 0 ? null : message.slice(hintAt + 7).trim();
  const rest = hintAt < 0 ? message : message.slice(0, hintAt);
  const marker = '\nIts last lines:\n';
  const linesAt = rest.indexOf(marker);
  const text = linesAt < 0 ? rest : rest.slice(0, linesAt);
  const lastLines =
    linesAt < 0
      ? []
      : rest
          .slice(linesAt + marker.length)
          .split('\n')
          .slice(-20);
  return { text: text.trim(), lastLines, hint };
}

/** Whether somebody ended it: no step failed, and the server says so. */
export function isCancelled(reason: { message: string; step?: string | null } | null): boolean {
  return reason !== null && !reason.step && /cancelled/i.test(reasonOf(reason.message).text);
}
