import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SandboxMetric, Event as WireEvent } from '../../../api';
import { append, stopsOf, toColumns, toRows } from './series';

const metric = (timestampUnix: number, cpuUsedPct = 1) =>
  ({ timestampUnix, cpuUsedPct, memUsed: 10, diskUsed: 20 }) as SandboxMetric;
const event = (kind: string, at: number) =>
  ({
    id: `${kind}${at}`,
    type: `sandbox.lifecycle.${kind}`,
    timestamp: new Date(at * 1000).toISOString(),
  }) as WireEvent;

test('a long silence is a hole', () => {
  const { at, cpu } = toColumns([metric(100), metric(105), metric(300)], [], 400);
  assert.deepEqual(at, [100, 105, 202.5, 300]);
  assert.deepEqual(cpu, [1, 1, null, 1]);
});

test('a short pause is a hole too', () => {
  const stops = stopsOf([event('paused', 110), event('resumed', 125)]);
  assert.deepEqual(toColumns([metric(105), metric(126)], stops, 400).cpu, [1, null, 1]);
  assert.deepEqual(toColumns([metric(105), metric(126)], [], 400).cpu, [1, 1]);
});

test('what is old may be an hour apart', () => {
  const now = 10 * 86_400;
  assert.equal(toColumns([metric(3600), metric(7200)], [], now).at.length, 2);
  assert.equal(toColumns([metric(3600), metric(36_000)], [], now).at.length, 3);
});

test('samples are appended once, old ones go', () => {
  const got = append([metric(1), metric(5)], [metric(5), metric(9)], 2);
  assert.deepEqual(
    got.map((m) => m.timestampUnix),
    [5, 9],
  );
});

test('the table has peaks and events', () => {
  const rows = toRows([metric(0, 5), metric(30, 9), metric(61, 2)], [{ at: 65, event: event('paused', 65) }], 60);
  assert.deepEqual(
    rows.map((row) => [row.at, row.cpu, row.events.length]),
    [
      [60, 2, 1],
      [0, 9, 0],
    ],
  );
});
