// The newest lines of a log. Pure.
import { plain } from '../../../format/plain';

export const MOST_LINES = 1000;
const MOST_LINE = 2000;

export interface Tail {
  lines: readonly string[];
  /** Lines came that are not held any more. */
  cut: boolean;
  /** Bytes that the server does not keep. */
  dropped: number;
}

export const EMPTY_TAIL: Tail = { lines: [], cut: false, dropped: 0 };

/** Lines are made safe to read when they come, once. */
export function append(tail: Tail, more: { lines: readonly string[]; dropped: number }): Tail {
  const newest = more.lines.slice(-MOST_LINES).map((line) => plain(line, MOST_LINE));
  const lines = [...tail.lines, ...newest];
  return {
    lines: lines.slice(-MOST_LINES),
    cut: tail.cut || tail.lines.length + more.lines.length > MOST_LINES,
    dropped: tail.dropped + Math.max(0, more.dropped),
  };
}
