import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BuildLogEntry } from '../../api';
import { append, EMPTY, offsetOf, reasonOf, Steps } from './log';

const line = (seconds: number, step: string, message: string): BuildLogEntry => ({
  timestamp: new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString(),
  level: 'info',
  message,
  step,
});
const at = (seconds: number) => Date.UTC(2026, 0, 1) + seconds * 1000;

test('lines are added once, and never after a gap', () => {
  const one = append(EMPTY, 0, [line(0, 'base', 'a'), line(0, 'base', 'b')]);
  assert.equal(append(one, 0, [line(0, 'base', 'a')]), one);
  assert.equal(append(one, 3, [line(0, 'base', 'd')]), one);
  const two = append(one, 1, [line(0, 'base', 'b'), line(0, 'base', 'c')]);
  assert.deepEqual(
    two.lines.map((entry) => entry.message),
    ['a', 'b', 'c'],
  );
});

test('the oldest lines go', () => {
  const many = Array.from({ length: 10 }, (_, i) => line(i, '1', `${i}`));
  const log = append(EMPTY, 0, many, 4);
  assert.deepEqual([log.dropped, log.lines.length, offsetOf(log)], [6, 4, 10]);
  assert.equal(append(log, 10, [line(1, '1', 'x')], 4).dropped, 7);
});

const LINES = [
  line(0, 'base', 'FROM the template base, build x'),
  line(1, '1', 'CACHED [tools 1/1] RUN make'),
  line(1, '2', '[1/3] COPY --from=tools /a /a'),
  line(2, '3', '[2/3] RUN npm ci'),
  line(4, '3', '[3/3] RUN not a title'),
];

test('steps while it builds', () => {
  const steps = new Steps();
  steps.read(append(EMPTY, 0, LINES));
  const list = steps.list('building', null, null);
  assert.deepEqual(
    list.map((step) => [step.id, step.state, step.cached, step.took]),
    [
      ['base', 'done', false, 1000],
      ['1', 'done', true, 0],
      ['2', 'done', false, 1000],
      ['3', 'creating', false, null],
    ],
  );
  assert.equal(list[3]?.title, 'RUN npm ci');
  assert.deepEqual(steps.progress(), { at: 3, of: 4 });
});

test('steps of a build that failed, and of one that was cancelled', () => {
  const steps = new Steps();
  steps.read(append(EMPTY, 0, LINES));
  assert.deepEqual(
    steps.list('error', '3', at(5)).map((step) => step.state),
    ['done', 'done', 'done', 'failed'],
  );
  assert.equal(steps.list('error', '3', at(5))[3]?.took, 3000);
  assert.equal(steps.list('error', null, at(5))[3]?.state, 'stopped');
});

test('reading goes on where it was', () => {
  const steps = new Steps();
  const half = append(EMPTY, 0, LINES.slice(0, 2));
  steps.read(half);
  steps.read(append(half, 2, LINES.slice(2)));
  assert.equal(steps.list('ready', null, at(9)).length, 4);
});

test('why it failed', () => {
  const all = reasonOf(
    "Dockerfile line 3: failed to run command 'x': exit status 127\nIts last lines:\na\nb\nHint: install it",
  );
  assert.deepEqual(all, {
    text: "Dockerfile line 3: failed to run command 'x': exit status 127",
    lastLines: ['a', 'b'],
    hint: 'install it',
  });
  assert.deepEqual(reasonOf('The build was cancelled'), { text: 'The build was cancelled', lastLines: [], hint: null });
});
