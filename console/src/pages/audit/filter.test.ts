import assert from 'node:assert/strict';
import { test } from 'node:test';
import { filterOf } from './filter';

test('filters come from the URL', () => {
  const given: Record<string, string> = { action: 'create_sandbox', since: 'hour', result: '', other: 'x' };
  const filter = filterOf((name) => given[name] ?? '', Date.parse('2026-01-01T10:00:59Z'));
  assert.deepEqual(filter, { action: 'create_sandbox', from: '2026-01-01T09:00:00.000Z' });
  assert.deepEqual(
    filterOf(() => 'x'.repeat(500), 0),
    { action: 'x'.repeat(128), actor: 'x'.repeat(128), target: 'x'.repeat(128), result: 'x'.repeat(128) },
  );
});
