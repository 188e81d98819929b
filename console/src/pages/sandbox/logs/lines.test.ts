import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogEntry } from '../../../api';
import { asText, filterLines, type Line, merge, micros, outcomes } from './lines';

const entry = (timestamp: string, message: string, more: Partial<LogEntry> = {}): LogEntry => ({
  timestamp,
  message,
  level: 'info',
  fields: {},
  ...more,
});
const at = (second: number, fraction = '0') => `2026-11-18T04:30:${String(second).padStart(2, '0')}.${fraction}Z`;

test('times are compared by value', () => {
  assert.ok(micros(at(1, '77503')) > micros(at(1, '769155')));
  assert.equal(micros(at(1, '5')) - micros(at(1, '0')), 500_000);
  assert.equal(micros('x'), 0);
});

test('pages join without doubles, in order', () => {
  const keys = new Set<string>();
  const middle = merge([], keys, [entry(at(5), 'c'), entry(at(4), 'b')]);
  assert.deepEqual(
    middle.map((line) => line.text),
    ['b', 'c'],
  );
  const older = merge(middle, keys, [entry(at(4), 'b'), entry(at(1), 'a')]);
  const newer = merge(older, keys, [entry(at(5), 'c'), entry(at(9), 'd')]);
  assert.deepEqual(
    newer.map((line) => line.text),
    ['a', 'b', 'c', 'd'],
  );
  assert.equal(merge(newer, keys, [entry(at(9), 'd')]), newer);
});

test('hostile lines are one bounded line of text', () => {
  const [line] = merge([], new Set(), [entry(at(1), `\u001b[31mred\u001b[0m\n<script>\u202e${'x'.repeat(50_000)}`)]);
  assert.match(line?.text ?? '', /^red ⏎ <script>·x/);
  assert.ok((line?.text.length ?? 0) < 1100);
});

test('filters are by level, source and text', () => {
  const lines = merge([], new Set(), [
    entry(at(1), 'one', { level: 'debug', fields: { logger: 'lifecycle' } }),
    entry(at(2), 'Two', { level: 'error', fields: { logger: 'guest' } }),
  ]);
  const texts = (filter: Partial<{ level: string; source: string; text: string }>) =>
    filterLines(lines, { level: '', source: '', text: '', ...filter }).map((line) => line.text);
  assert.deepEqual(texts({}), ['one', 'Two']);
  assert.deepEqual(texts({ level: 'warn' }), ['Two']);
  assert.deepEqual(texts({ source: 'lifecycle' }), ['one']);
  assert.deepEqual(texts({ text: 'tw' }), ['Two']);
});

test('commands get their exit codes', () => {
  const guest = (pid: string) => ({ fields: { logger: 'guest', pid } });
  const lines = merge([], new Set(), [
    entry(at(1), 'Process 2 started: sh -c false', guest('2')),
    entry(at(2), 'Process 3 started: sleep 9', guest('3')),
    entry(at(3), 'Process 2 ended: exit status 3', guest('2')),
    entry(at(4), 'Process 4 started: x', guest('4')),
    entry(at(5), 'Process 4 was killed: its deadline passed', guest('4')),
  ]);
  const found = outcomes(lines);
  const of = (i: number) => found.get((lines[i] as Line).key);
  assert.deepEqual(of(0), { code: '3', failed: true, seconds: 2 });
  assert.equal(of(1)?.code, null);
  assert.equal(of(3)?.code, 'killed');
});

test('text for a file has one line for each', () => {
  const lines = merge([], new Set(), [entry(at(1), 'one'), entry(at(2), 'two')]);
  assert.equal(asText(lines).split('\n').length, 3);
});
