import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeChat } from '../state/fake-chat';
import { withPage } from '../state/reduce';
import { EMPTY } from '../state/types';
import { ChatStore } from './store';

const settle = async () => {
  for (let i = 0; i < 10; i++) await Promise.resolve();
};

function harness(seed: number) {
  const server = new FakeChat(seed);
  const calls = { page: 0 };
  let failing = false;
  const waits: (() => void)[] = [];
  const store = new ChatStore({
    page: async () => {
      calls.page += 1;
      if (failing) throw new Error('down');
      return server.page();
    },
    chat: async () => server.chat(),
    soon: (run) => run(),
    later: (run) => waits.push(run),
  });
  return {
    server,
    store,
    calls,
    fail: (value: boolean) => {
      failing = value;
    },
    later: () => waits.splice(0).forEach((run) => void run()),
  };
}

const ids = (store: ChatStore) => store.view.messages.map((message) => [message.id, message.status, message.content]);

test('events that come while the page is fetched are applied after it', async () => {
  const { server, store } = harness(3);
  for (let i = 0; i < 20; i++) server.step();
  const before = server.events.length;
  store.start();
  for (let i = 0; i < 20; i++) server.step();
  // The page was written somewhere between: these are in it or after it.
  for (const event of server.events.slice(before)) store.receive(event);
  await settle();
  assert.deepEqual(ids(store), ids({ view: withPage(EMPTY, server.page(), server.chat()) } as ChatStore));
  assert.equal(store.state.ready, true);
});

test('lagging fetches the page again, and an error of the socket subscribes anew', async () => {
  const { server, store, calls, later } = harness(4);
  store.start();
  await settle();
  for (let i = 0; i < 30; i++) server.step();
  store.receive({ type: 'lagged' });
  await settle();
  assert.equal(calls.page, 2);
  assert.equal(store.view.lastEventId, server.lastEventId);
  store.receive({ type: 'error' });
  assert.equal(store.state.ready, false);
  later();
  await settle();
  assert.equal(store.state.ready, true);
});

test('a server that is away is asked again, and what is shown stays', async () => {
  const { server, store, fail, later, calls } = harness(5);
  for (let i = 0; i < 10; i++) server.step();
  store.start();
  await settle();
  const shown = store.view.messages.length;
  fail(true);
  store.receive({ type: 'lagged' });
  await settle();
  assert.ok(store.state.error);
  assert.equal(store.view.messages.length, shown);
  fail(false);
  later();
  await settle();
  assert.equal(store.state.error, null);
  assert.equal(calls.page, 3);
});

test('a tab that comes back asks for what it has missed', async () => {
  const { server, store, later, calls } = harness(6);
  store.start();
  await settle();
  await store.check();
  later();
  assert.equal(calls.page, 1);
  for (let i = 0; i < 10; i++) server.step();
  await store.check();
  later();
  await settle();
  assert.equal(calls.page, 2);
  assert.equal(store.view.lastEventId, server.lastEventId);
});
