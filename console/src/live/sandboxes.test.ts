import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SandboxRow } from '../api/types';
import { matches, patch } from './sandboxes';

const row = (sandboxID: string, more: Partial<SandboxRow> = {}) =>
  ({ sandboxID, state: 'running', templateID: 't1', alias: 'base', metadata: {}, ...more }) as SandboxRow;

test('filters as the server does', () => {
  assert.ok(matches({}, row('a')));
  assert.ok(!matches({ state: ['paused'] }, row('a')));
  assert.ok(matches({ state: ['failed'] }, row('a', { phase: 'failed' })));
  assert.ok(matches({ template: 'base' }, row('a')));
  assert.ok(!matches({ template: 'node' }, row('a')));
  assert.ok(matches({ metadata: { env: 'x' } }, row('a', { metadata: { env: 'x' } })));
  assert.ok(!matches({ metadata: { env: 'x' } }, row('a')));
  assert.ok(matches({ q: 'TODO' }, row('a', { metadata: { name: 'my todo' } })));
  assert.ok(!matches({ q: 'zzz' }, row('a')));
});

test('replaces, adds and removes', () => {
  const rows = [row('a'), row('b')];
  assert.equal(patch(rows, {}, [{ id: 'zz', row: null }]), rows);
  assert.deepEqual(
    patch(rows, {}, [{ id: 'c', row: row('c') }]).map((r) => r.sandboxID),
    ['c', 'a', 'b'],
  );
  assert.deepEqual(
    patch(rows, {}, [{ id: 'a', row: null }]).map((r) => r.sandboxID),
    ['b'],
  );
  const paused = patch(rows, {}, [{ id: 'b', row: row('b', { state: 'paused' }) }]);
  assert.equal(paused[1]?.state, 'paused');
  assert.equal(patch(rows, { state: ['running'] }, [{ id: 'b', row: row('b', { state: 'paused' }) }]).length, 1);
});

test('the last change of a row counts', () => {
  const changes = [
    { id: 'c', row: row('c') },
    { id: 'c', row: null },
  ];
  assert.deepEqual(patch([], {}, changes), []);
});
