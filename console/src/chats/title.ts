// What a chat is called and does, for people.
import type { Chat } from '../api/chat-types';
import type { State } from '../format/sandbox';
import { visibleLine } from './state/text';
import { strings } from './strings';

export const titleOf = (chat: Pick<Chat, 'title'>): string => visibleLine(chat.title, 200) || strings.untitled;

const STATES: Record<Chat['status'], State> = {
  idle: 'done',
  running: 'creating',
  waiting: 'waiting',
  failed: 'failed',
};

export const stateOf = (chat: Pick<Chat, 'status'>): State => STATES[chat.status] ?? 'stopped';
export const wordOf = (chat: Pick<Chat, 'status'>): string => strings.statuses[chat.status] ?? chat.status;
