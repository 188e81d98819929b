// Which rows of a long list are to be drawn. Pure.

export interface Range {
  /** The first row, and the one after the last. */
  start: number;
  end: number;
}

/** `offset`: pixels of the list above the visible part (negative: the list begins below its top). */
export function rangeOf(count: number, height: number, offset: number, visible: number, spare = 8): Range {
  if (count === 0 || height <= 0) return { start: 0, end: 0 };
  const first = Math.floor(offset / height) - spare;
  const last = Math.ceil((offset + visible) / height) + spare;
  const start = Math.min(Math.max(0, first), count);
  return { start, end: Math.min(count, Math.max(start, last)) };
}

/** One row that has more below it: `index` of the row, `height` of what is below. */
export interface Opened {
  index: number;
  height: number;
}

/** Where the top of a row is. */
export const topOf = (index: number, height: number, opened: Opened | null): number =>
  index * height + (opened && index > opened.index ? opened.height : 0);

/** The same place in the list, as if nothing was opened. */
export function closedOffset(offset: number, height: number, opened: Opened | null): number {
  if (!opened) return offset;
  const below = (opened.index + 1) * height;
  return offset <= below ? offset : Math.max(below, offset - opened.height);
}

/** How far to scroll so that a row is seen: pixels to add, 0 if it is. */
export function reveal(index: number, height: number, offset: number, visible: number, head = 0): number {
  const top = index * height - offset;
  const bottom = top + height;
  if (top < head) return top - head;
  if (bottom > visible) return bottom - visible;
  return 0;
}

/** The selection after a click: one row, or with Shift all from the row before. */
export function select(
  selected: ReadonlySet<string>,
  keys: readonly string[],
  at: number,
  from: number | null,
  on: boolean,
): Set<string> {
  const next = new Set(selected);
  const [low, high] = from === null ? [at, at] : [Math.min(at, from), Math.max(at, from)];
  for (const key of keys.slice(low, high + 1)) {
    if (on) next.add(key);
    else next.delete(key);
  }
  return next;
}
