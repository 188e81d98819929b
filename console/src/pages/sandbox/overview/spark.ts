// The path of a small line. Pure.
export interface Point {
  /** Seconds since 1970. */
  at: number;
  /** 0 to 1. */
  value: number;
}

/** A hole longer than this, in seconds, breaks the line. Those that do nothing are sampled once a minute. */
const HOLE = 90;

/** Lines and the areas below them, between two times. Small values still show as a line above the floor. */
export function sparkPath(points: readonly Point[], from: number, to: number, width: number, height: number) {
  const span = Math.max(1, to - from);
  const x = (at: number) => (((at - from) / span) * width).toFixed(1);
  const y = (value: number) => (height - 1.5 - Math.min(1, Math.max(0, value)) * (height - 4)).toFixed(1);
  let line = '';
  let area = '';
  let runs: Point[] = [];
  const close = () => {
    const [first] = runs;
    const last = runs.at(-1);
    if (first && last) {
      const path = runs.map((p, i) => `${i === 0 ? 'M' : 'L'}${x(p.at)} ${y(p.value)}`).join('');
      line += path;
      area += `${path}L${x(last.at)} ${height}L${x(first.at)} ${height}Z`;
    }
    runs = [];
  };
  for (const point of points) {
    if (point.at < from || !Number.isFinite(point.value)) continue;
    const before = runs.at(-1);
    if (before && point.at - before.at > HOLE) close();
    runs.push(point);
  }
  close();
  return { line, area };
}
