import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isServiceName, isSlug, isUp, isWeb, serviceStatus } from './service';

const now = Date.parse('2026-01-01T01:00:00Z');
const since = '2026-01-01T00:00:00Z';

test('states have a shape, a word and a time', () => {
  assert.deepEqual(serviceStatus({ state: 'running', since }, now), {
    state: 'running',
    word: 'Running',
    detail: '1 h',
  });
  assert.deepEqual(serviceStatus({ state: 'suspended', since }, now), {
    state: 'suspended',
    word: 'Suspended',
    detail: null,
  });
  assert.equal(serviceStatus({ state: 'starting', since }, now).state, 'creating');
  assert.equal(serviceStatus({ state: 'error', since }, now).state, 'failed');
  assert.equal(serviceStatus({ state: 'stopped', since }, now).detail, '1 h ago');
  assert.ok(isUp({ state: 'starting' }) && !isUp({ state: 'suspended' }));
});

test('a state of a newer server is shown as it is', () => {
  const status = serviceStatus({ state: 'hibernated' as 'running', since }, now);
  assert.deepEqual([status.state, status.word], ['stopped', 'hibernated']);
});

test('names', () => {
  for (const name of ['web', 'a', 'api-2', 'my_app', '0']) assert.ok(isServiceName(name), name);
  for (const name of ['', '-a', 'A', 'a b', 'a/b', 'ä', 'a.b', 'x'.repeat(41)]) assert.ok(!isServiceName(name), name);
});

test('names below the domain', () => {
  for (const slug of ['shop', 'my-shop-2']) assert.ok(isSlug(slug), slug);
  for (const slug of ['', 'ab', 'api', '8080-iabc', 'a--b', 'a-', '-ab', 'a_b', 'Shop', 'a.b', 'x'.repeat(41)]) {
    assert.ok(!isSlug(slug), slug);
  }
  assert.ok(!isSlug(`p${'a'.repeat(26)}`));
});

test('only the web is followed', () => {
  assert.ok(isWeb('https://a.test/') && isWeb('http://a.localhost:3000/'));
  for (const url of [null, undefined, '', '//a', 'javascript:alert(1)', 'data:text/html,x', '/x'])
    assert.ok(!isWeb(url));
});
