// Samples as columns for charts, with holes where the sandbox did not run. Pure.
import type { SandboxMetric, Event as WireEvent } from '../../../api';
import { kindOf } from '../words/event';

export interface Columns {
  /** Seconds since 1970. */
  at: number[];
  cpu: (number | null)[];
  memory: (number | null)[];
  disk: (number | null)[];
}

export interface Mark {
  at: number;
  event: WireEvent;
}

const HOUR = 3600;
const DAY = 24 * HOUR;
const STOPS = ['pausing', 'paused', 'archiving', 'archived', 'failed', 'killed', 'ending'];

/** The longest time between two samples of a sandbox that runs: older ones are peaks of minutes and of hours. */
export function longestStep(age: number): number {
  if (age <= HOUR) return 90;
  return age <= 2 * DAY ? 200 : 2.5 * HOUR;
}

/** Times at which it stopped running. */
export const stopsOf = (events: readonly WireEvent[]): number[] =>
  events
    .filter((event) => STOPS.includes(kindOf(event.type)))
    .map((event) => Date.parse(event.timestamp) / 1000)
    .sort((a, b) => a - b);

export function toColumns(metrics: readonly SandboxMetric[], stops: readonly number[], now: number): Columns {
  const columns: Columns = { at: [], cpu: [], memory: [], disk: [] };
  let before: SandboxMetric | undefined;
  let next = 0;
  for (const metric of metrics) {
    const at = metric.timestampUnix;
    if (before && at <= before.timestampUnix) continue;
    if (before) {
      while (next < stops.length && (stops[next] ?? 0) < before.timestampUnix) next += 1;
      const stopped = next < stops.length && (stops[next] ?? 0) < at && at - before.timestampUnix > 10;
      if (stopped || at - before.timestampUnix > longestStep(now - before.timestampUnix)) {
        push(columns, (before.timestampUnix + at) / 2, null);
      }
    }
    push(columns, at, metric);
    before = metric;
  }
  return columns;
}

function push(columns: Columns, at: number, metric: SandboxMetric | null): void {
  columns.at.push(at);
  columns.cpu.push(metric?.cpuUsedPct ?? null);
  columns.memory.push(metric?.memUsed ?? null);
  columns.disk.push(metric?.diskUsed ?? null);
}

/** New samples after the ones that are there, and nothing that is too old. */
export function append(
  old: readonly SandboxMetric[],
  more: readonly SandboxMetric[],
  from: number,
): readonly SandboxMetric[] {
  const last = old.at(-1)?.timestampUnix ?? 0;
  const kept = old.filter((metric) => metric.timestampUnix >= from);
  return [...kept, ...more.filter((metric) => metric.timestampUnix > last && metric.timestampUnix >= from)];
}

export interface Row {
  /** Seconds since 1970, the beginning. */
  at: number;
  cpu: number;
  memory: number;
  disk: number;
  events: WireEvent[];
}

/** Peaks of equal times, newest first, for the table. Times without samples or events are left out. */
export function toRows(metrics: readonly SandboxMetric[], marks: readonly Mark[], step: number): Row[] {
  const rows = new Map<number, Row>();
  const rowAt = (at: number): Row => {
    const begin = Math.floor(at / step) * step;
    const row = rows.get(begin) ?? { at: begin, cpu: Number.NaN, memory: Number.NaN, disk: Number.NaN, events: [] };
    rows.set(begin, row);
    return row;
  };
  const peak = (a: number, b: number) => (Number.isNaN(a) ? b : Math.max(a, b));
  for (const metric of metrics) {
    const row = rowAt(metric.timestampUnix);
    row.cpu = peak(row.cpu, metric.cpuUsedPct);
    row.memory = peak(row.memory, metric.memUsed);
    row.disk = peak(row.disk, metric.diskUsed);
  }
  for (const mark of marks) rowAt(mark.at).events.push(mark.event);
  return [...rows.values()].sort((a, b) => b.at - a.at);
}
