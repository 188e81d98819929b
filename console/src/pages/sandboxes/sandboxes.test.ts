import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SandboxRow } from '../../api/types';
import { actsOf, actsOfAll, timeoutFor } from './acts';
import { CpuStore, sparkPath } from './cpu-store';
import { commonLabels, countRows, filterOf, labelOf, narrow } from './filter';
import { runAll } from './run-all';
import { againPath, endsOf, keptFor, linesOf, nameOf, reasonOf } from './words';

const NOW = Date.UTC(2026, 9, 12, 12);
const row = (more: Partial<SandboxRow> = {}): SandboxRow => ({
  sandboxID: 'i4xq7r1vz0d8k5n3m2c9',
  templateID: 'tpl',
  alias: 'base',
  clientID: 'cabana',
  cpuCount: 2,
  memoryMB: 1024,
  diskSizeMB: 10_240,
  envdVersion: '1',
  state: 'running',
  phase: 'running',
  startedAt: new Date(NOW - 60_000).toISOString(),
  endAt: new Date(NOW + 41 * 60_000).toISOString(),
  ...more,
});

test('filters of the URL', () => {
  assert.deepEqual(filterOf({ state: '', template: '', labels: [], q: '' }), {});
  assert.deepEqual(filterOf({ state: 'archived', template: 'base', labels: ['a=b=c', 'wrong'], q: 'x' }), {
    state: ['paused'],
    template: 'base',
    metadata: { a: 'b=c' },
    q: 'x',
  });
  assert.deepEqual(filterOf({ state: 'nonsense', template: '', labels: [], q: '' }), {});
  assert.deepEqual(labelOf('a='), ['a', '']);
  assert.equal(labelOf('=b'), null);
});

test('paused and archived ones are told apart here', () => {
  const rows = [row({ state: 'paused', phase: 'paused' }), row({ state: 'paused', phase: 'archived' })];
  assert.deepEqual(narrow(rows, 'paused'), [rows[0]]);
  assert.deepEqual(narrow(rows, 'archived'), [rows[1]]);
  assert.equal(narrow(rows, ''), rows);
  assert.deepEqual(countRows([...rows, row(), row({ phase: 'failed' })]), {
    running: 1,
    asleep: 2,
    failed: 1,
    ended: 0,
  });
});

test('labels to choose from', () => {
  const rows = [row({ metadata: { env: 'x', name: 'n' } }), row({ metadata: { env: 'x', a: 'b' } })];
  assert.deepEqual(commonLabels(rows), ['env=x', 'a=b']);
});

test('acts by phase', () => {
  assert.deepEqual(actsOf(row({ phase: 'failed' })), ['recover', 'kill']);
  assert.deepEqual(actsOf(row({ phase: 'ended' })), []);
  assert.deepEqual(actsOf(row({ phase: 'pausing' })), ['kill']);
  const able = actsOfAll([row(), row({ phase: 'failed' })]);
  assert.equal(able.get('kill')?.length, 2);
  assert.equal(able.get('pause')?.length, 1);
  assert.equal(able.has('resume'), false);
  assert.equal(timeoutFor({ endAt: new Date(NOW + 7_200_000).toISOString() }, NOW), 7200);
  assert.equal(timeoutFor({ endAt: 'nonsense' }, NOW), 3600);
});

test('words of a row', () => {
  assert.equal(nameOf(row()), 'base');
  assert.equal(nameOf(row({ metadata: { name: '  todo\u202e ' } })), 'todo·');
  assert.equal(
    reasonOf({ reason: 'was paused by request of API key 7c266419-f470-4a1d-92a9-3adab4e34002' }),
    'by an API key',
  );
  assert.equal(reasonOf({ reason: 'was idle and was paused' }), 'idle');
  assert.equal(reasonOf({ reason: 'the sandbox ran out of memory' }), 'ran out of memory');
  assert.equal(endsOf(row(), NOW), '41 m');
  assert.equal(endsOf(row({ phase: 'paused', state: 'paused' }), NOW), null);
  assert.equal(keptFor(row({ since: new Date(NOW - 3_600_000).toISOString() }), NOW), '23 h');
  assert.equal(keptFor(row({ since: new Date(NOW - 25 * 3_600_000).toISOString() }), NOW), null);
  assert.deepEqual(linesOf(row({ lastLines: ['\u001b[31ma', 'b\nc'] })), ['a', 'b c']);
  assert.equal(linesOf(row({ lastLines: Array.from({ length: 90 }, String) })).length, 20);
  assert.equal(
    againPath(row({ metadata: { 'a&b': 'c d' } })),
    '/create?step=config&template=base&cpu=2&memory=1024&disk=10240&label=a%26b%3Dc+d',
  );
});

test('many at once, a few at a time', async () => {
  let running = 0;
  let most = 0;
  const seen: number[] = [];
  const outcome = await runAll(
    [1, 2, 3, 4, 5, 6, 7],
    async (item) => {
      running += 1;
      most = Math.max(most, running);
      await Promise.resolve();
      running -= 1;
      if (item === 3) throw new Error('no');
    },
    { most: 4, onProgress: (ended) => seen.push(ended) },
  );
  assert.equal(most, 4);
  assert.equal(outcome.done.length, 6);
  assert.deepEqual(
    outcome.failed.map((failure) => failure.item),
    [3],
  );
  assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7]);
});

test('what is stopped is left, what must wait is tried again', async () => {
  const controller = new AbortController();
  const stopped = await runAll([1, 2, 3], async () => controller.abort(), { most: 1, signal: controller.signal });
  assert.deepEqual([stopped.done, stopped.left], [[1], [2, 3]]);
  let tries = 0;
  const waits: number[] = [];
  const busy = await runAll(
    ['a'],
    async () => {
      tries += 1;
      if (tries < 3) throw new Error('busy');
    },
    { most: 1, waitFor: () => 7, wait: async (seconds) => void waits.push(seconds) },
  );
  assert.deepEqual([busy.done, waits], [['a'], [7, 7]]);
});

test('CPU of the rows on the screen', async () => {
  const asked: string[][] = [];
  let told: () => void = () => {};
  const store = new CpuStore({
    settle: 0,
    every: 60_000,
    fetch: async (ids) => {
      asked.push(ids);
      return { a: { at: 1, percent: 50 } };
    },
  });
  const changed = new Promise<void>((resolve) => (told = resolve));
  const leave = [store.watch('a', () => told()), store.watch('b', () => {})];
  await changed;
  assert.deepEqual(asked, [['a', 'b']]);
  assert.deepEqual(store.get('a'), [{ at: 1, percent: 50 }]);
  assert.equal(store.get('b').length, 0);
  for (const stop of leave) stop();
});

test('a line through samples', () => {
  assert.equal(sparkPath([], 62, 20), '');
  assert.equal(sparkPath([{ at: 1, percent: 0 }], 62, 20), 'M60.0 19.0L62.0 19.0');
  const two = sparkPath(
    [
      { at: 1, percent: 100 },
      { at: 2, percent: 900 },
    ],
    62,
    20,
  );
  assert.equal(two, 'M60.0 1.0L62.0 1.0');
});
