// Keeps cached lists of chats as the live socket tells it.
import type { QueryClient } from '@tanstack/react-query';
import type { Chat, ChatPage } from '../api/chat-types';
import type { LiveMessage } from '../api/types';

type ChatMessage = Extract<LiveMessage, { type: 'chat.updated' | 'chat.removed' }>;

/** A list after a message. In a list of everything, a chat that changed is the first. */
export function patchChats(page: ChatPage, message: ChatMessage, filtered: boolean, limit = Infinity): ChatPage {
  const id = message.type === 'chat.removed' ? message.chatId : message.chat.id;
  const known = page.chats.some((chat) => chat.id === id);
  if (message.type === 'chat.removed') {
    return known ? { ...page, chats: page.chats.filter((chat) => chat.id !== id) } : page;
  }
  const { chat } = message;
  if (filtered) return known ? { ...page, chats: page.chats.map((one) => (one.id === id ? chat : one)) } : page;
  const rest = page.chats.filter((one) => one.id !== id);
  const after = rest.findIndex((one) => newer(chat, one));
  const chats = after < 0 ? [...rest, chat] : rest.toSpliced(after, 0, chat);
  return { ...page, chats: chats.slice(0, limit) };
}

const newer = (a: Chat, b: Chat) => Date.parse(a.updatedAt) >= Date.parse(b.updatedAt);

export function applyChat(client: QueryClient, message: ChatMessage): void {
  for (const query of client.getQueryCache().findAll({ queryKey: ['chats'] })) {
    const [, filter, limit] = query.queryKey as [string, { q?: string; status?: string } | undefined, unknown];
    const filtered = Boolean(filter?.q || filter?.status);
    client.setQueryData<ChatPage>(
      query.queryKey,
      (page) => page && patchChats(page, message, filtered, typeof limit === 'number' ? limit : undefined),
    );
  }
}
