import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Service } from '../../wire';
import { nextTurn, parseTarget, serviceAt } from './target';

test('addresses of services', () => {
  assert.deepEqual(parseTarget('https://5173-iabc.e2b.test/todos?x=1#top'), {
    sandboxId: 'iabc',
    port: 5173,
    path: '/todos?x=1',
    domain: 'e2b.test',
  });
  assert.deepEqual(parseTarget('http://8080-iabc.localhost:3000'), {
    sandboxId: 'iabc',
    port: 8080,
    path: '/',
    domain: 'localhost:3000',
  });
  assert.equal(parseTarget('HTTPS://8080-IABC-legacy.e2b.test/')?.sandboxId, 'iabc');
});

test('everything else is refused', () => {
  for (const text of [
    null,
    undefined,
    '',
    '/todos',
    '//8080-iabc.e2b.test/',
    'javascript:alert(1)//8080-iabc.e2b.test',
    'java\tscript:alert(1)',
    ' https://8080-iabc.e2b.test/',
    'https://8080-iabc.e2b.test/\n',
    'https:\\\\8080-iabc.e2b.test/',
    'data:text/html,x',
    'blob:https://8080-iabc.e2b.test/x',
    'file:///8080-iabc.e2b.test',
    'ftp://8080-iabc.e2b.test/',
    'ws://8080-iabc.e2b.test/',
    'https://user@8080-iabc.e2b.test/',
    'https://user:word@8080-iabc.e2b.test/',
    'https://8080-iabc/',
    'https://e2b.test/',
    'https://8080.e2b.test/',
    'https://0-iabc.e2b.test/',
    'https://65536-iabc.e2b.test/',
    'https://8080-.e2b.test/',
    'https://8080-i_bc.e2b.test/',
    'https://127.0.0.1:3000/',
    'https://[::1]/',
    'https:8080-iabc.e2b.test',
    `https://8080-iabc.e2b.test/${'x'.repeat(5000)}`,
  ]) {
    assert.equal(parseTarget(text), null, String(text).slice(0, 60));
  }
});

test('paths stay paths of the service', () => {
  assert.equal(parseTarget('https://8080-iabc.e2b.test//evil.test/')?.path, '/');
  assert.equal(parseTarget('https://8080-iabc.e2b.test/../..//evil.test')?.path, '/');
  assert.equal(parseTarget(`https://8080-iabc.e2b.test/${'x'.repeat(2100)}`)?.path, '/');
});

const service = (port: number, url: string | null) => ({ id: 'svc', sandboxId: 'iabc', port, url }) as Service;

test('the service at an address', () => {
  const target = parseTarget('https://5173-iabc.e2b.test/')!;
  const found = service(5173, 'https://5173-iabc.e2b.test/');
  assert.equal(serviceAt(target, [service(80, 'https://80-iabc.e2b.test/'), found]), found);
  assert.equal(serviceAt(target, [service(5173, null)]), null);
  assert.equal(serviceAt(target, []), null);
});

test('an address below another domain is another address', () => {
  const services = [service(5173, 'https://5173-iabc.e2b.test/')];
  assert.equal(serviceAt(parseTarget('https://5173-iabc.evil.test/')!, services), null);
  assert.equal(serviceAt(parseTarget('https://5173-iabc.e2b.test.evil.test/')!, services), null);
  assert.equal(serviceAt(parseTarget('https://5173-iabc.e2b.test:8443/')!, services), null);
});

test('a tunnel to loopback has a port of its own', () => {
  const services = [service(5173, 'http://5173-iabc.localhost:3000/')];
  assert.equal(serviceAt(parseTarget('http://5173-iabc.localhost:9000/')!, services), services[0]);
});

test('nobody is sent round in circles', () => {
  assert.deepEqual(nextTurn(null, 1000), [1000]);
  assert.deepEqual(nextTurn('[1000,2000]', 3000), [1000, 2000, 3000]);
  assert.equal(nextTurn('[1000,2000,3000]', 4000), null);
  assert.deepEqual(nextTurn('[1000,2000,3000]', 40_000), [40_000]);
  for (const odd of ['x', '{}', '["a"]', 'null']) assert.deepEqual(nextTurn(odd, 5), [5]);
});
