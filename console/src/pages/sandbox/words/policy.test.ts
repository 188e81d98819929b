import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SandboxDetail } from '../../../api';
import { policyWords, timeoutWords } from './policy';

const NOW = Date.parse('2026-11-18T04:00:00Z');
const sandbox = (more: object) =>
  ({
    state: 'running',
    phase: 'running',
    endAt: '2026-11-18T04:41:30Z',
    lifecycle: { onTimeout: 'pause', autoResume: false },
    ...more,
  }) as unknown as SandboxDetail;

test('the timeout says when and what', () => {
  assert.equal(timeoutWords(sandbox({}), NOW), 'pauses in 41 m');
  assert.equal(timeoutWords(sandbox({ lifecycle: { onTimeout: 'kill' } }), NOW), 'is killed in 41 m');
  assert.equal(timeoutWords(sandbox({ endAt: '9999-01-01T00:00:00Z' }), NOW), 'no timeout');
  assert.equal(timeoutWords(sandbox({ phase: 'paused' }), NOW), null);
  assert.equal(timeoutWords(sandbox({ endAt: 'x' }), NOW), null);
});

test('the rest is said only where it differs', () => {
  assert.deepEqual(policyWords(sandbox({})), []);
  assert.deepEqual(
    policyWords(
      sandbox({ lifecycle: { onTimeout: 'kill', idleTimeout: 900, autoResume: true, onFailure: 'replace' } }),
    ),
    ['pauses after 15 m idle', 'a request resumes it', 'boots again after a failure'],
  );
});
