import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Chat, ChatPage } from '../api/chat-types';
import { patchChats } from './chats';

const chat = (id: string, minute: number) =>
  ({ id, title: `${id} ${minute}`, updatedAt: `2026-01-01T00:0${minute}:00Z` }) as Chat;
const page: ChatPage = { chats: [chat('b', 3), chat('a', 1)], nextCursor: null };
const ids = (given: ChatPage) => given.chats.map((one) => one.id).join();

test('a chat that changed comes first, a new one too, one that is gone goes', () => {
  assert.equal(ids(patchChats(page, { topic: 'chats', type: 'chat.updated', chat: chat('a', 5) }, false)), 'a,b');
  assert.equal(ids(patchChats(page, { topic: 'chats', type: 'chat.updated', chat: chat('c', 5) }, false)), 'c,b,a');
  assert.equal(ids(patchChats(page, { topic: 'chats', type: 'chat.updated', chat: chat('c', 5) }, false, 2)), 'c,b');
  assert.equal(ids(patchChats(page, { topic: 'chats', type: 'chat.removed', chatId: 'b' }, false)), 'a');
  assert.equal(patchChats(page, { topic: 'chats', type: 'chat.removed', chatId: 'z' }, false), page);
});

test('where something is searched, only what is there changes', () => {
  const next = patchChats(page, { topic: 'chats', type: 'chat.updated', chat: chat('a', 5) }, true);
  assert.equal(next.chats[1]?.title, 'a 5');
  assert.equal(patchChats(page, { topic: 'chats', type: 'chat.updated', chat: chat('c', 5) }, true), page);
});
