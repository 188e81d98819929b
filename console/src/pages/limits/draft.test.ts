import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TeamQuotas } from '../../wire';
import { changes, draftOf, isFull, isLimit } from './draft';

const quotas: TeamQuotas = {
  teamID: 'default',
  plan: 'self-hosted',
  operator: true,
  quotas: [
    { kind: 'instances', used: 3, limit: 10, source: 'team' },
    { kind: 'vcpu', used: 2, limit: 2, source: 'plan' },
    { kind: 'disk_mb', used: 5, limit: null, source: 'none' },
  ],
};

test('the limits of the team itself are texts to edit', () => {
  assert.deepEqual(draftOf(quotas), { instances: '10', vcpu: '', disk_mb: '' });
});

test('only what was changed is sent', () => {
  assert.deepEqual(changes(quotas, draftOf(quotas)), {});
  assert.deepEqual(changes(quotas, { instances: '', vcpu: ' 8 ', disk_mb: '' }), { instances: null, vcpu: 8 });
});

test('limits are whole numbers in their range', () => {
  for (const text of ['', '0', '1000000000000']) assert.ok(isLimit('vcpu', text), text);
  for (const text of ['-1', '1.5', 'x', '1000000000001', '9'.repeat(30)]) assert.ok(!isLimit('vcpu', text), text);
  assert.ok(!isLimit('turns', '0'));
});

test('a limit that is reached is full', () => {
  assert.deepEqual(quotas.quotas.map(isFull), [false, true, false]);
});
