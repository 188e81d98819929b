import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QueryClient } from '@tanstack/react-query';
import type { Service } from '../wire';
import { applyService, patchServices } from './services';

const service = (id: string, more: Partial<Service> = {}) =>
  ({ id, sandboxId: 'i1', name: id, state: 'running', ...more }) as Service;
const topic = 'sandbox:i1';

test('a list follows messages', () => {
  const list = [service('a'), service('b')];
  const stopped = service('a', { state: 'stopped' });
  assert.deepEqual(patchServices(list, { topic, type: 'service', service: stopped }), [stopped, list[1]]);
  const added = patchServices(list, { topic, type: 'service', service: service('c') });
  assert.deepEqual(
    added.map((one) => one.id),
    ['a', 'b', 'c'],
  );
  assert.deepEqual(patchServices(list, { topic, type: 'service', deleted: 'a', sandboxId: 'i1' }), [list[1]]);
  assert.equal(patchServices(list, { topic, type: 'service', deleted: 'z', sandboxId: 'i1' }), list);
});

test('the caches of the list and of the service agree', () => {
  const client = new QueryClient();
  client.setQueryData(['services', 'i1'], [service('a')]);
  applyService(client, { topic, type: 'service', service: service('a', { state: 'error' }) });
  assert.equal(client.getQueryData<Service[]>(['services', 'i1'])?.[0]?.state, 'error');
  assert.equal(client.getQueryData<Service>(['service', 'a'])?.state, 'error');
  applyService(client, { topic, type: 'service', deleted: 'a', sandboxId: 'i1' });
  assert.deepEqual(client.getQueryData(['services', 'i1']), []);
  assert.ok(client.getQueryState(['service', 'a'])?.isInvalidated);
});

test('a list that nobody has asked for is not made up', () => {
  const client = new QueryClient();
  applyService(client, { topic, type: 'service', service: service('a') });
  assert.equal(client.getQueryData(['services', 'i1']), undefined);
});
