import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoff } from './backoff';
import { keysOf } from './caches';
import { LiveSocket, SIGNED_OUT } from './socket';

class FakeSocket {
  readyState = 0;
  sent: unknown[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.readyState = 3;
  }
  opens() {
    this.readyState = 1;
    this.onopen?.();
  }
  says(value: unknown) {
    this.onmessage?.({ data: JSON.stringify(value) });
  }
  ends(code: number) {
    this.readyState = 3;
    this.onclose?.({ code });
  }
}

function harness() {
  const sockets: FakeSocket[] = [];
  const gaps: string[][] = [];
  let signedOut = 0;
  const live = new LiveSocket({
    address: () => 'ws://test/live',
    open: () => {
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket as unknown as WebSocket;
    },
    onGap: (topics) => gaps.push(topics),
    onSignedOut: () => signedOut++,
  });
  return { live, sockets, gaps, signedOut: () => signedOut };
}

test('topics are counted: one subscription for two handlers', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { live, sockets } = harness();
  live.start();
  sockets[0]!.opens();
  const got: string[] = [];
  const first = live.subscribe('sandboxes', () => got.push('a'));
  const second = live.subscribe('sandboxes', () => got.push('b'));
  assert.deepEqual(sockets[0]!.sent, [{ subscribe: 'sandboxes' }]);
  sockets[0]!.says({ topic: 'sandboxes', type: 'subscribed' });
  sockets[0]!.says({ topic: 'sandboxes', type: 'event' });
  assert.deepEqual(got, ['a', 'b']);
  first();
  first();
  assert.equal(sockets[0]!.sent.length, 1);
  second();
  assert.deepEqual(sockets[0]!.sent.at(-1), { unsubscribe: 'sandboxes' });
  live.stop();
});

test('a lost connection comes back, subscribes again and reports the gap', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { live, sockets, gaps } = harness();
  let offset = 0;
  live.subscribe(
    'build:t/b',
    () => {},
    () => offset,
  );
  live.start();
  assert.equal(live.state, 'connecting');
  sockets[0]!.opens();
  assert.equal(live.state, 'connected');
  assert.deepEqual(gaps, []);
  sockets[0]!.says({ type: 'subscribed', topic: 'build:t/b' });
  assert.deepEqual(gaps, [['build:t/b']], 'what was fetched before may be old');
  offset = 7;
  sockets[0]!.ends(1012);
  assert.equal(live.state, 'lost');
  t.mock.timers.tick(600);
  assert.equal(sockets.length, 2);
  sockets[1]!.opens();
  assert.equal(live.state, 'connected');
  assert.deepEqual(sockets[1]!.sent, [{ subscribe: 'build:t/b', after: 7 }]);
  sockets[1]!.says({ type: 'subscribed', topic: 'build:t/b' });
  assert.deepEqual(gaps[1], ['build:t/b']);
  sockets[1]!.says({ type: 'lagged', topic: 'build:t/b' });
  assert.equal(gaps.length, 3);
  live.stop();
});

test('pings are answered, nonsense is ignored, silence ends the socket', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { live, sockets } = harness();
  live.start();
  sockets[0]!.opens();
  sockets[0]!.says({ type: 'ping' });
  assert.deepEqual(sockets[0]!.sent, [{ pong: true }]);
  sockets[0]!.onmessage?.({ data: '{' });
  t.mock.timers.tick(41_000);
  assert.equal(sockets[0]!.readyState, 3);
  live.stop();
});

test('the end of the session ends the socket', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { live, sockets, signedOut } = harness();
  live.start();
  sockets[0]!.opens();
  sockets[0]!.ends(SIGNED_OUT);
  t.mock.timers.tick(60_000);
  assert.equal(signedOut(), 1);
  assert.equal(sockets.length, 1);
  assert.equal(live.state, 'closed');
});

test('waits grow to ten seconds', () => {
  assert.equal(
    backoff(0, () => 0),
    250,
  );
  assert.equal(
    backoff(0, () => 1),
    500,
  );
  assert.equal(
    backoff(50, () => 1),
    10_000,
  );
});

test('topics name their caches', () => {
  assert.deepEqual(keysOf('build:t/b'), [['build', 't', 'b']]);
  assert.deepEqual(keysOf('sandbox:i1')[0], ['sandbox', 'i1']);
  assert.deepEqual(keysOf('nonsense'), []);
});

test('presence is told while there is a connection', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { live, sockets } = harness();
  assert.equal(live.presence('svc_1'), false);
  live.start();
  assert.equal(live.presence('svc_1'), false);
  sockets[0]!.opens();
  assert.equal(live.presence('svc_1'), true);
  assert.deepEqual(sockets[0]!.sent, [{ presence: 'svc_1' }]);
  live.stop();
});
