// What a page shows of a chat. Plain data, made by reduce.ts from a page of messages and events.
import type {
  Attachment,
  Chat,
  ChatFault,
  ChatSandbox,
  ChatUsage,
  Message,
  ToolCall,
  Turn,
  TurnState,
} from '../../api/chat-types';
import type { Service } from '../../wire';

export interface CallView extends ToolCall {
  /** What the command printed, with its colours; the newest part of it. */
  live: string;
}

export interface MessageView extends Omit<Message, 'toolCalls'> {
  calls: readonly CallView[];
}

export interface TurnView {
  status: TurnState;
  reason: string | null;
  fault: ChatFault | null;
}

/** The model's context was made smaller after this message. */
export interface Compaction {
  after: string;
  beforeTokens: number;
  afterTokens: number;
}

export interface ChatView {
  /** Null until it was fetched. */
  chat: Chat | null;
  /** Events up to this one are contained. */
  lastEventId: number;
  messages: readonly MessageView[];
  /** Whether there are older messages. */
  more: boolean;
  /** The turn that runs or waits. */
  active: { turnId: string; status: 'running' | 'waiting' } | null;
  queued: readonly Turn[];
  turns: Readonly<Record<string, TurnView>>;
  sandboxes: readonly ChatSandbox[];
  services: Readonly<Record<string, Service>>;
  attachments: Readonly<Record<string, Attachment>>;
  compactions: readonly Compaction[];
  /** What the model read last, before the chat itself says it. */
  lastUsage: ChatUsage | null;
  /** An error that belongs to no turn. */
  fault: ChatFault | null;
  /** Events spoke of what is not here: the page must be fetched again. */
  stale: boolean;
}

export const EMPTY: ChatView = {
  chat: null,
  lastEventId: 0,
  messages: [],
  more: false,
  active: null,
  queued: [],
  turns: {},
  sandboxes: [],
  services: {},
  attachments: {},
  compactions: [],
  lastUsage: null,
  fault: null,
  stale: false,
};

export const isDone = (call: Pick<ToolCall, 'status'>): boolean => call.status === 'success' || call.status === 'error';
