// The state of a chat after an event, or after a page of messages. Pure.
import type { Chat, ChatEvent, ChatFault, MessagePage, StartedTurn, Turn } from '../../api/chat-types';
import { addDelta, addOutput, changeCall, finish, messageView, putCall, putMessage } from './messages';
import type { ChatView, TurnView } from './types';

/** Turns of which the outcome is remembered. */
const MOST_TURNS = 500;

/** Applies an event once: what is contained already is left alone. */
export function applyEvent(state: ChatView, event: ChatEvent): ChatView {
  if (!Number.isFinite(event.id) || event.id <= state.lastEventId) return state;
  return { ...change(state, event), lastEventId: event.id };
}

function change(state: ChatView, event: ChatEvent): ChatView {
  const { messages } = state;
  switch (event.type) {
    case 'message.created':
    case 'message.snapshot':
      return { ...state, messages: putMessage(messages, event.message) };
    case 'message.delta':
      return { ...state, messages: addDelta(messages, event.messageId, event.delta) };
    case 'message.complete':
      return {
        ...state,
        messages: putMessage(messages, {
          ...event.message,
          ...(event.stopReason ? { stopReason: event.stopReason } : {}),
        }),
        lastUsage: event.usage ?? event.message.usage ?? state.lastUsage,
      };
    case 'tool.call':
      return { ...state, messages: putCall(messages, event.toolCall) };
    case 'tool.output':
      return { ...state, messages: changeCall(messages, event.toolCallId, (call) => addOutput(call, event)) };
    case 'tool.message':
      return { ...state, messages: changeCall(messages, event.toolCallId, (call) => finish(call, event)) };
    case 'approval.requested':
      return {
        ...state,
        messages: changeCall(messages, event.toolCallId, (call) => ({ ...call, status: 'approval', why: event.why })),
      };
    case 'turn.queued':
      return { ...state, queued: [...state.queued.filter((turn) => turn.id !== event.turn.id), event.turn] };
    case 'turn.removed':
      return { ...state, queued: state.queued.filter((turn) => turn.id !== event.turnId) };
    case 'turn.started':
      return started(state, event.turn);
    case 'turn.complete':
      return ended(state, event);
    case 'sandbox.updated': {
      const { name, sandboxId, state: phase } = event;
      const old = state.sandboxes.find((one) => one.name === name);
      const next = { role: 'code' as const, ...old, name, sandboxId, state: phase };
      const sandboxes = old ? state.sandboxes.map((one) => (one === old ? next : one)) : [...state.sandboxes, next];
      return { ...state, sandboxes };
    }
    case 'service.updated':
      return { ...state, services: { ...state.services, [event.service.id]: event.service } };
    case 'artifact.created':
    case 'attachment.updated':
      return { ...state, attachments: { ...state.attachments, [event.attachment.id]: event.attachment } };
    case 'context.compacted': {
      const { beforeTokens, afterTokens } = event;
      const note = { after: messages.at(-1)?.id ?? '', beforeTokens, afterTokens };
      return { ...state, compactions: [...state.compactions, note] };
    }
    case 'chat.updated':
      return withChat(state, event.chat);
    case 'chat.restored':
      return restored(state, event.messageId);
    case 'error': {
      const { code, message, hint, retryable } = event;
      const fault: ChatFault = { code, message, hint, retryable };
      if (!event.turnId) return { ...state, fault };
      return withTurn(state, event.turnId, { fault });
    }
    // What a newer server tells is not known here.
    default:
      return state;
  }
}

function withTurn(state: ChatView, id: string, given: Partial<TurnView>): ChatView {
  const old = state.turns[id] ?? { status: 'running', reason: null, fault: null };
  const turns = { ...state.turns, [id]: { ...old, ...given } };
  const ids = Object.keys(turns);
  if (ids.length > MOST_TURNS) delete turns[ids[0]!];
  return { ...state, turns };
}

function started(state: ChatView, turn: Turn): ChatView {
  return {
    ...withTurn(state, turn.id, { status: 'running', reason: null }),
    active: { turnId: turn.id, status: 'running' },
    queued: state.queued.filter((one) => one.id !== turn.id),
    fault: null,
  };
}

function ended(state: ChatView, event: Extract<ChatEvent, { type: 'turn.complete' }>): ChatView {
  const { turnId, status, reason } = event;
  if (!turnId) return state;
  const next = withTurn(state, turnId, { status, reason: reason ?? null });
  if (status === 'waiting') return { ...next, active: { turnId, status: 'waiting' } };
  return { ...next, active: state.active?.turnId === turnId ? null : state.active };
}

/** The chat as the server has it says what runs and what waits. */
export function withChat(state: ChatView, chat: Chat): ChatView {
  const { turnId } = chat;
  const active = turnId
    ? { turnId, status: chat.status === 'waiting' ? ('waiting' as const) : ('running' as const) }
    : null;
  return { ...state, chat, active, queued: chat.queued ?? [], sandboxes: chat.sandboxes ?? [] };
}

function restored(state: ChatView, first: string): ChatView {
  const at = state.messages.findIndex((message) => message.id === first);
  // It is older than what is here.
  if (at < 0) return { ...state, messages: [], compactions: [], stale: true };
  const messages = state.messages.slice(0, at);
  const kept = new Set(messages.map((message) => message.id));
  return { ...state, messages, compactions: state.compactions.filter((note) => kept.has(note.after)) };
}

/** A page of the newest messages replaces what is here, except older ones that were loaded before. */
export function withPage(state: ChatView, page: MessagePage, chat?: Chat): ChatView {
  const known = new Map(state.messages.map((message) => [message.id, message]));
  const newest = page.messages.map((message) => messageView(message, keptOutput(known.get(message.id))));
  const first = page.messages[0]?.id;
  const at = page.more && first ? state.messages.findIndex((message) => message.id === first) : -1;
  const next: ChatView = {
    ...state,
    messages: at > 0 ? [...state.messages.slice(0, at), ...newest] : newest,
    more: at > 0 ? state.more : page.more,
    lastEventId: page.lastEventId,
    stale: false,
  };
  const told = withTurns(next, page.turns);
  return chat ? withChat(told, chat) : told;
}

/** How turns ended. Only events say more about an error, so what they said stays. */
function withTurns(state: ChatView, turns: Turn[]): ChatView {
  const ended = turns.filter((turn) => turn.endedAt !== null);
  return ended.reduce((all, { id, status, reason }) => withTurn(all, id, { status, reason }), state);
}

/** Calls are as the page says; only the colours of what a command printed are not in it. */
function keptOutput(message: ReturnType<typeof messageView> | undefined): typeof message {
  return message && { ...message, calls: message.calls.filter((call) => call.live !== '') };
}

export function withOlder(state: ChatView, page: MessagePage, before: string): ChatView {
  // Something else is the oldest now.
  if (state.messages[0]?.id !== before) return state;
  const known = new Set(state.messages.map((message) => message.id));
  const older = page.messages.filter((message) => !known.has(message.id)).map((message) => messageView(message));
  return { ...withTurns(state, page.turns), messages: [...older, ...state.messages], more: page.more };
}

/** The answer to a message that was sent: what waits is seen at once. */
export function withStarted(state: ChatView, { turn }: StartedTurn): ChatView {
  if (turn?.status !== 'queued' || state.active?.turnId === turn.id) return state;
  if (state.queued.some((one) => one.id === turn.id) || state.turns[turn.id]) return state;
  return { ...state, queued: [...state.queued, turn] };
}
