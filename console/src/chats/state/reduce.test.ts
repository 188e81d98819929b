import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatEvent, Message } from '../../api/chat-types';
import { FakeChat, random } from './fake-chat';
import { MOST_OUTPUT } from './messages';
import { applyEvent, withChat, withOlder, withPage, withStarted } from './reduce';
import { type ChatView, EMPTY } from './types';

/** What must be equal, however one came to it. */
function seen(state: ChatView): unknown {
  return {
    messages: state.messages.map(({ calls, ...message }) => ({
      ...message,
      stopReason: message.stopReason,
      // A title comes with the call itself; what a command printed with colours is not kept by the server.
      calls: calls.map(({ live, title, why, ...call }) => ({
        ...call,
        title: call.status === 'pending' ? '' : title,
        live: call.status === 'running' ? live : '',
        why: why ?? null,
      })),
    })),
    active: state.active,
    queued: state.queued,
    sandboxes: state.sandboxes,
    lastEventId: state.lastEventId,
  };
}

const all = (state: ChatView, events: readonly ChatEvent[]) => events.reduce(applyEvent, state);
const begin = () => withChat(EMPTY, new FakeChat(1).chat());

test('a page and the events after it are the same as all events', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const server = new FakeChat(seed);
    const pages: { page: ReturnType<FakeChat['page']>; chat: ReturnType<FakeChat['chat']> }[] = [];
    for (let i = 0; i < 120; i++) {
      server.step();
      // A step may be several events; a page can be asked for after each step.
      pages.push({ page: server.page(), chat: server.chat() });
    }
    const whole = all(begin(), server.events);
    const next = random(seed * 7);
    for (let i = 0; i < 12; i++) {
      const at = pages[Math.floor(next() * pages.length)]!;
      // Resumed from an earlier event: what the page contains is not applied twice.
      const from = Math.floor(next() * (server.events.findIndex((event) => event.id > at.page.lastEventId) + 1));
      const state = all(withPage(EMPTY, at.page, at.chat), server.events.slice(Math.max(0, from)));
      assert.deepEqual(seen(state), seen(whole), `seed ${seed}, page at ${at.page.lastEventId}`);
    }
  }
});

test('a page in the middle of what is here changes nothing that the page does not say', () => {
  for (let seed = 100; seed <= 130; seed++) {
    const server = new FakeChat(seed);
    let state = begin();
    let applied = 0;
    const next = random(seed);
    for (let i = 0; i < 100; i++) {
      server.step();
      if (next() < 0.3) {
        state = withPage(state, server.page(), server.chat());
        applied = server.events.length;
      } else if (next() < 0.7) {
        state = all(state, server.events.slice(applied));
        applied = server.events.length;
      }
    }
    state = all(state, server.events.slice(applied));
    assert.deepEqual(seen(state), seen(withPage(EMPTY, server.page(), server.chat())), `seed ${seed}`);
  }
});

test('events are applied once', () => {
  const server = new FakeChat(5);
  for (let i = 0; i < 60; i++) server.step();
  const once = all(begin(), server.events);
  const twice = all(all(begin(), server.events), server.events);
  assert.deepEqual(twice, once);
  assert.equal(applyEvent(once, server.events[3]!), once);
  assert.equal(applyEvent(once, { type: 'ping' } as unknown as ChatEvent), once);
});

const AT = '2026-01-01T00:00:00Z';
const head = (id: number) => ({ id, chatId: 'chat_1', turnId: 'turn_1', at: AT });
const message = (id: string, role: Message['role'] = 'assistant'): Message => ({
  id,
  chatId: 'chat_1',
  turnId: 'turn_1',
  role,
  author: null,
  status: 'streaming',
  content: [],
  createdAt: AT,
});

test('output is bounded, tells of gaps, and is replaced by a snapshot', () => {
  let state = applyEvent(EMPTY, { ...head(1), type: 'message.created', message: message('m') });
  const toolCall = { id: 'c', messageId: 'm', name: 'sandbox_run_command', title: 'Run', status: 'running' as const };
  state = applyEvent(state, { ...head(2), type: 'tool.call', toolCall });
  const out = (id: number, text: string, dropped = 0, snapshot?: boolean): ChatEvent => ({
    ...head(id),
    type: 'tool.output',
    toolCallId: 'c',
    stream: 'stdout',
    text,
    dropped,
    snapshot,
  });
  const live = () => state.messages[0]!.calls[0]!.live;
  state = applyEvent(state, out(3, 'a'));
  state = applyEvent(state, out(4, 'b', 12));
  assert.equal(live(), 'a\n[… 12 bytes left out …]\nb');
  state = applyEvent(state, out(5, 'x'.repeat(MOST_OUTPUT * 2)));
  assert.equal(live().length, MOST_OUTPUT);
  state = applyEvent(state, out(6, 'fresh', 99, true));
  assert.equal(live(), 'fresh');
});

test('errors belong to their turn, and restoring beyond what is here asks for the page', () => {
  let state = applyEvent(EMPTY, {
    ...head(1),
    type: 'error',
    code: 'model_overloaded',
    message: 'busy',
    hint: 'wait',
    retryable: true,
  });
  state = applyEvent(state, { ...head(2), type: 'turn.complete', status: 'failed', reason: 'model_failed' });
  assert.equal(state.turns.turn_1?.fault?.code, 'model_overloaded');
  assert.equal(state.turns.turn_1?.status, 'failed');
  state = applyEvent(state, { ...head(3), type: 'message.created', message: message('m') });
  state = applyEvent(state, { ...head(4), type: 'chat.restored', messageId: 'older', removedMessages: 4 });
  assert.equal(state.stale, true);
  assert.equal(state.messages.length, 0);
  assert.equal(withPage(state, { messages: [message('n')], turns: [], more: false, lastEventId: 9 }).stale, false);
});

test('older messages stay when the newest page is fetched again', () => {
  let state = withPage(EMPTY, { messages: [message('c'), message('d')], turns: [], more: true, lastEventId: 5 });
  state = withOlder(state, { messages: [message('a'), message('b')], turns: [], more: false, lastEventId: 5 }, 'c');
  assert.deepEqual(
    state.messages.map((one) => one.id),
    ['a', 'b', 'c', 'd'],
  );
  assert.equal(withOlder(state, { messages: [message('z')], turns: [], more: false, lastEventId: 5 }, 'c'), state);
  state = withPage(state, {
    messages: [message('c'), message('d'), message('e')],
    turns: [],
    more: true,
    lastEventId: 8,
  });
  assert.deepEqual(
    state.messages.map((one) => one.id),
    ['a', 'b', 'c', 'd', 'e'],
  );
  assert.equal(state.more, false);
  // Nothing in common: what lies between is not known.
  state = withPage(state, { messages: [message('x')], turns: [], more: true, lastEventId: 90 });
  assert.deepEqual(
    state.messages.map((one) => one.id),
    ['x'],
  );
});

test('a queued turn is seen once, whoever tells of it first', () => {
  const server = new FakeChat(1);
  const usage = { inputTokens: 0, cachedTokens: 0, outputTokens: 0, costMicros: 0 };
  const turn = {
    id: 'turn_9',
    chatId: 'chat_1',
    messageId: 'm9',
    status: 'queued' as const,
    reason: null,
    steps: 0,
    usage,
    prompt: 'later',
    createdAt: AT,
    endedAt: null,
  };
  const answer = { chat: server.chat(), turn };
  const told: ChatEvent = { ...head(3), turnId: 'turn_9', type: 'turn.queued', turn };
  assert.equal(applyEvent(withStarted(EMPTY, answer), told).queued.length, 1);
  assert.equal(withStarted(applyEvent(EMPTY, told), answer).queued.length, 1);
  const begun = applyEvent(applyEvent(EMPTY, told), { ...head(4), turnId: 'turn_9', type: 'turn.started', turn });
  assert.equal(withStarted(begun, answer).queued.length, 0);
});

test('a page says how its turns ended, and keeps what events said of an error', () => {
  const server = new FakeChat(3);
  const turn = { ...server.turn('turn_9'), status: 'failed' as const, reason: 'step_limit', endedAt: 'then' };
  const running = server.turn('turn_10');
  const page = { messages: [message('c')], turns: [turn, running], more: true, lastEventId: 5 };
  let state = withPage(EMPTY, page);
  assert.deepEqual(state.turns, { turn_9: { status: 'failed', reason: 'step_limit', fault: null } });
  const fault = { code: 'x', message: 'y', hint: 'z', retryable: true };
  state = { ...state, turns: { turn_9: { status: 'failed', reason: null, fault } } };
  assert.deepEqual(withPage(state, page).turns.turn_9, { status: 'failed', reason: 'step_limit', fault });
  const older = { messages: [message('a')], turns: [{ ...turn, id: 'turn_1' }], more: false, lastEventId: 5 };
  assert.equal(withOlder(state, older, 'c').turns.turn_1?.reason, 'step_limit');
});
