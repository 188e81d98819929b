import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventWords, isStep, reasonWords } from './event';

const words = (type: string, eventData: Record<string, unknown> = {}) =>
  eventWords({ type: `sandbox.lifecycle.${type}`, eventData });

test('who and why are told apart', () => {
  const reason = 'was killed by request of API key k1';
  assert.deepEqual(words('killed', { cause: { kind: 'killed', by: 'k1' }, reason }), {
    state: 'stopped',
    what: 'Killed',
    why: null,
    by: 'k1',
  });
  assert.equal(words('paused', { cause: { kind: 'idle' }, reason: 'was idle and was paused' }).why, 'it was idle');
  assert.equal(words('paused', { cause: { kind: 'asked', by: 'k' }, pauseMode: 'full' }).why, 'with its memory');
  assert.equal(words('killed', { cause: { kind: 'out_of_memory' }, reason: 'ran out of memory' }).state, 'failed');
  assert.equal(words('requested', { by: 'usr_1' }).by, 'usr_1');
});

test('changes say what changed', () => {
  assert.equal(
    words('updated', { reason: 'timeout', endAt: '2026-11-18T04:41:30Z' }).why,
    'ends 2026-11-18 04:41:30 UTC',
  );
  assert.equal(words('updated', { reason: 'resize', cpuCount: 4, memoryMB: 2048 }).why, 'to 4 vCPU, 2 GiB');
  assert.equal(words('updated', { reason: 'oom', oomKills: 1 }).why, '1 process killed');
});

test('what nobody knows is shown as text', () => {
  assert.equal(words('exploded').what, 'exploded');
  assert.equal(eventWords({ type: '<b>', eventData: null }).what, '<b>');
  assert.equal(words('failed', { reason: 'x\u202ey' }).why, 'it x·y');
  assert.ok((words('failed', { reason: 'z'.repeat(9000) }).why ?? '').length < 500);
});

test('steps are told from what they lead to', () => {
  assert.ok(isStep('sandbox.lifecycle.pausing'));
  assert.ok(!isStep('sandbox.lifecycle.paused'));
});

test('ids in reasons become names', () => {
  assert.equal(
    reasonWords('was killed by request of API key k-1', () => 'key ci'),
    'was killed by key ci',
  );
  assert.equal(reasonWords(null, String), null);
});
