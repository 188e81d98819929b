// Two texts as changed lines: Myers' algorithm, bounded; where texts differ too much, all of one and all of the other.
// Pure.
import { Builder, type Change, type FileDiff, linesOf } from './lines';

const MOST_EDITS = 400;
/** Lines around a change that stay in view. */
const AROUND = 3;

export function compare(path: string, before: string, after: string, change: Change = 'edit'): FileDiff {
  const old = linesOf(before);
  const now = linesOf(after);
  const file = new Builder(path, change, null, 1);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (
    end < old.length - start &&
    end < now.length - start &&
    old[old.length - 1 - end] === now[now.length - 1 - end]
  ) {
    end++;
  }
  const steps = edits(old.slice(start, old.length - end), now.slice(start, now.length - end));
  const all: Step[] = [
    ...old.slice(0, start).map((text): Step => ['same', text]),
    ...steps,
    ...old.slice(old.length - end).map((text): Step => ['same', text]),
  ];
  fold(all, file);
  return file.done();
}

type Step = ['same' | 'add' | 'del', string];

/** Leaves out what is far from any change. */
function fold(steps: readonly Step[], file: Builder): void {
  const near = new Uint8Array(steps.length);
  let last = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < steps.length; i++) {
    if (steps[i]![0] !== 'same') last = i;
    if (i - last <= AROUND) near[i] = 1;
  }
  last = Number.POSITIVE_INFINITY;
  for (let i = steps.length - 1; i >= 0; i--) {
    if (steps[i]![0] !== 'same') last = i;
    if (last - i <= AROUND) near[i] = 1;
  }
  let [old, now, isGap] = [1, 1, false];
  for (const [i, [kind, text]] of steps.entries()) {
    if (near[i]) {
      if (isGap) {
        if (!file.isEmpty) file.push('gap', '');
        file.goTo(old, now);
        isGap = false;
      }
      file.push(kind, text);
    } else isGap = true;
    if (kind !== 'add') old++;
    if (kind !== 'del') now++;
  }
}

function edits(old: readonly string[], now: readonly string[]): Step[] {
  const trace = old.length > 0 && now.length > 0 ? search(old, now) : null;
  if (!trace) {
    return [...old.map((text): Step => ['del', text]), ...now.map((text): Step => ['add', text])];
  }
  const steps: Step[] = [];
  let [x, y] = [old.length, now.length];
  for (let d = trace.length - 1; d > 0; d--) {
    const reach = trace[d - 1]!;
    const k = x - y;
    const down = k === -d || (k !== d && at(reach, k - 1) < at(reach, k + 1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = at(reach, fromK);
    const fromY = fromX - fromK;
    while (x > fromX && y > fromY) {
      steps.push(['same', old[--x]!]);
      y--;
    }
    if (down) steps.push(['add', now[--y]!]);
    else steps.push(['del', old[--x]!]);
  }
  while (x > 0 && y > 0) {
    steps.push(['same', old[--x]!]);
    y--;
  }
  return steps.reverse();
}

const at = (reach: Int32Array, k: number): number => reach[k + (reach.length >> 1)] ?? -1;

/** How far each diagonal is reached with 0, 1, 2… edits; null if they are too many. */
function search(old: readonly string[], now: readonly string[]): Int32Array[] | null {
  const trace: Int32Array[] = [];
  let before = new Int32Array(3).fill(-1);
  for (let d = 0; d <= Math.min(MOST_EDITS, old.length + now.length); d++) {
    const reach = new Int32Array(2 * d + 3).fill(-1);
    const middle = d + 1;
    for (let k = -d; k <= d; k += 2) {
      let x = d === 0 ? 0 : Math.max(at(before, k - 1) + 1, at(before, k + 1));
      if (k === -d && d > 0) x = at(before, k + 1);
      while (x < old.length && x - k < now.length && old[x] === now[x - k]) x++;
      reach[k + middle] = x;
      if (x >= old.length && x - k >= now.length) {
        trace.push(reach);
        return trace;
      }
    }
    trace.push(reach);
    before = reach;
  }
  return null;
}
