// Changes of files as lines. Pure.

export type Kind = 'same' | 'add' | 'del' | 'gap';

export interface DiffLine {
  kind: Kind;
  text: string;
  /** Numbers in the old and in the new file; null where they are not known. */
  old: number | null;
  new: number | null;
}

export type Change = 'edit' | 'create' | 'delete' | 'rename';

export interface FileDiff {
  /** Empty if the text names none. */
  path: string;
  /** Before a renaming. */
  from: string | null;
  change: Change;
  lines: DiffLine[];
  added: number;
  removed: number;
  /** Lines that are left out. */
  left: number;
}

/** Of one file; the rest is counted and left out. */
const MOST_LINES = 2000;
const LONGEST_LINE = 2000;
export const MOST_FILES = 100;
const LONGEST_TEXT = 2_097_152;

export class Builder {
  readonly #file: FileDiff;
  #old: number | null;
  #new: number | null;

  constructor(path: string, change: Change = 'edit', from: string | null = null, first: number | null = null) {
    this.#file = { path, from, change, lines: [], added: 0, removed: 0, left: 0 };
    this.#old = first;
    this.#new = first;
  }

  set change(change: Change) {
    this.#file.change = change;
  }

  rename(from: string, to: string): void {
    this.#file.from = from;
    this.#file.path = to;
    this.#file.change = 'rename';
  }

  /** Where the next line stands, or that it is not known. */
  goTo(old: number | null, now: number | null): void {
    this.#old = old;
    this.#new = now;
  }

  push(kind: Kind, text: string): void {
    if (kind === 'add') this.#file.added++;
    if (kind === 'del') this.#file.removed++;
    const line: DiffLine = {
      kind,
      text: text.length > LONGEST_LINE ? `${text.slice(0, LONGEST_LINE)}…` : text,
      old: kind === 'add' || kind === 'gap' ? null : this.#old,
      new: kind === 'del' || kind === 'gap' ? null : this.#new,
    };
    if (kind !== 'add' && kind !== 'gap' && this.#old !== null) this.#old++;
    if (kind !== 'del' && kind !== 'gap' && this.#new !== null) this.#new++;
    if (this.#file.lines.length < MOST_LINES) this.#file.lines.push(line);
    else if (kind !== 'gap') this.#file.left++;
  }

  get isEmpty(): boolean {
    return this.#file.lines.length === 0;
  }

  done(): FileDiff {
    return this.#file;
  }
}

/** Lines without their ends; the empty one behind the last end is none. Very long texts are cut. */
export function linesOf(text: string): string[] {
  const bounded = text.length > LONGEST_TEXT ? text.slice(0, LONGEST_TEXT) : text;
  const lines = bounded.split('\n').map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

export function countsOf(files: readonly FileDiff[]): { added: number; removed: number } {
  let [added, removed] = [0, 0];
  for (const file of files) {
    added += file.added;
    removed += file.removed;
  }
  return { added, removed };
}
