// Chats on the wire, as in crates/types/src/chat.rs, turn.rs and wire/chat.rs, and their events.
import type { Service, ToolError } from '../wire';

export type ChatStatus = 'idle' | 'running' | 'waiting' | 'failed';
export type MessageStatus = 'streaming' | 'complete' | 'interrupted' | 'cancelled' | 'failed';
export type StopReason = 'end' | 'tools' | 'length' | 'refused';
export type OnBusy = 'queue' | 'steer' | 'reject';
export type CallStatus = 'pending' | 'approval' | 'client' | 'running' | 'success' | 'error';
export type Approve = 'auto' | 'ask' | 'never';
export type AttachmentKind = 'upload' | 'artifact' | 'screenshot';
export type SyncState = 'pending' | 'synced' | 'failed';
export type TurnState = 'queued' | 'running' | 'waiting' | 'complete' | 'failed' | 'cancelled' | 'interrupted';
export type Decision = 'allow' | 'deny' | 'always';

/** A part of a page, in CSS pixels. */
export interface ShotRect {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface ShotViewport {
  width: number;
  height: number;
  dpr?: number;
}

export interface ScreenshotPart {
  type: 'screenshot';
  attachmentId: string;
  serviceId?: string;
  path?: string;
  rect?: ShotRect;
  viewport?: ShotViewport;
}

export type Part =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string }
  | { type: 'image'; attachmentId: string }
  | { type: 'file'; attachmentId: string; name: string; path?: string }
  | ScreenshotPart
  | { type: 'tool_call'; toolCallId: string; name: string; arguments: unknown };

export type ChatTool =
  | {
      type: 'sandbox';
      template?: string;
      cpuCount?: number;
      memoryMB?: number;
      names?: string[];
      allow?: string[];
      approve?: Record<string, Approve>;
    }
  | { type: 'services' }
  | { type: 'ask' }
  | { type: 'function'; name: string; description?: string; parameters?: unknown };

/** Tokens and cost. */
export interface ChatUsage {
  inputTokens: number;
  cachedTokens: number;
  outputTokens: number;
  /** Millionths of the currency; null if a model without a known price was used. */
  costMicros: number | null;
}

export interface TurnLimits {
  maxSteps: number;
  maxMinutes: number;
  maxCostMicros: number | null;
}

export interface ChatSandbox {
  name: string;
  role: 'code' | 'browser' | 'desktop';
  sandboxId: string;
  state: string;
}

export interface Turn {
  id: string;
  chatId: string;
  messageId: string;
  status: TurnState;
  /** Why it failed or waits. */
  reason: string | null;
  steps: number;
  usage: ChatUsage;
  /** The beginning of its message. */
  prompt: string;
  createdAt: string;
  endedAt: string | null;
}

export interface Chat {
  id: string;
  title: string;
  projectId: string;
  agentId: string | null;
  model: string;
  status: ChatStatus;
  parentId: string | null;
  sandboxId: string | null;
  browserSandboxId: string | null;
  sandboxes: ChatSandbox[];
  tools: ChatTool[];
  access: 'private' | 'shared' | 'collaboration';
  usage: ChatUsage;
  contextTokens: number;
  contextWindow: number;
  turnId: string | null;
  queued: Turn[];
  lastEventId: number;
  metadata: Record<string, unknown>;
  createdAt: string;
  updatedAt: string;
}

export interface ChatPage {
  chats: Chat[];
  nextCursor: string | null;
}

export interface Attachment {
  id: string;
  chatId: string | null;
  kind: AttachmentKind;
  name: string;
  mediaType: string;
  size: number;
  sha256: string;
  status: SyncState;
  path: string | null;
  error: string | null;
  createdAt: string;
}

export interface ToolCall {
  id: string;
  messageId: string;
  name: string;
  /** For people, such as `Run npm test`. */
  title: string;
  arguments: unknown;
  sandboxId: string | null;
  status: CallStatus;
  why?: string | null;
  /** What the model sees; of a running command, the newest output so far. */
  output: string;
  data: unknown;
  error: ToolError | null;
  truncated: boolean;
  durationMs: number | null;
  attachments: Attachment[];
}

export interface Message {
  id: string;
  chatId: string;
  turnId: string;
  role: 'user' | 'assistant';
  author: { userId: string } | null;
  status: MessageStatus;
  content: Part[];
  toolCalls?: ToolCall[];
  stopReason?: StopReason;
  usage?: ChatUsage;
  model?: string;
  createdAt: string;
}

export interface MessagePage {
  messages: Message[];
  /** The turns that they belong to: how they ended, and why. */
  turns: Turn[];
  /** Whether there are older ones. */
  more: boolean;
  /** Events up to this one are contained in the messages. */
  lastEventId: number;
}

export interface NewMessage {
  prompt?: string;
  content?: Part[];
  /** For this turn only. */
  tools?: ChatTool[];
  /** From this turn on. */
  model?: string;
  attachments?: string[];
  onBusy?: OnBusy;
}

export interface NewChat extends Omit<NewMessage, 'onBusy'> {
  agentId?: string;
  projectId?: string;
  title?: string;
  metadata?: Record<string, unknown>;
}

export interface ChatUpdate {
  title?: string;
  model?: string;
  /** An empty text: none. */
  agentId?: string;
  tools?: ChatTool[];
  metadata?: Record<string, unknown>;
}

export interface StartedTurn {
  chat: Chat;
  turn: Turn | null;
}

export interface Checkpoint {
  turnId: string;
  /** The first message that restoring takes back. */
  messageId: string | null;
  kind: 'turn' | 'restore';
  label: string;
  createdAt: string;
}

export interface Agent {
  id: string;
  name: string;
  description: string;
  kind: string;
  model: string | null;
  system: string;
  tools: ChatTool[];
  limits: TurnLimits;
  suggestions: string[];
  createdAt: string;
  updatedAt: string;
}

export interface NewAgent {
  name: string;
  description?: string;
  kind?: 'loop';
  model?: string;
  system?: string;
  tools?: ChatTool[];
  limits?: TurnLimits;
  suggestions?: string[];
}

export interface Model {
  /** `PROVIDER/MODEL`. */
  id: string;
  provider: string;
  name: string;
  /** Whether it is scripted and no AI. */
  demo: boolean;
  default: boolean;
  contextWindow: number;
  priced: boolean;
}

export interface ModelPage {
  models: Model[];
  /** What a person can ask the demo for. */
  suggestions: string[];
}

export interface ModelProvider {
  name: string;
  kind: string;
  baseUrl: string | null;
  hasKey: boolean;
  models: string[];
  scope: 'server' | 'team';
  createdAt: string | null;
}

export interface NewModelProvider {
  name: string;
  kind: 'openai' | 'anthropic';
  baseUrl?: string;
  key?: string;
  models?: string[];
}

export interface ToolMessage {
  toolCallId: string;
  name: string;
  status: 'success' | 'error';
  output: string;
  data: unknown;
  error: ToolError | null;
  truncated: boolean;
  durationMs: number | null;
  attachments: Attachment[];
}

export interface ChatFault {
  code: string;
  message: string;
  hint?: string;
  retryable?: boolean;
}

type EventBody =
  | { type: 'message.created'; message: Message }
  | { type: 'message.delta'; messageId: string; delta: { text?: string; reasoning?: string } }
  | {
      type: 'message.complete';
      message: Message;
      stopReason?: StopReason | null;
      usage?: ChatUsage | null;
      costMicros?: number | null;
    }
  | { type: 'message.snapshot'; message: Message }
  | { type: 'tool.call'; toolCall: Partial<ToolCall> & Pick<ToolCall, 'id' | 'messageId' | 'name'> }
  | { type: 'tool.output'; toolCallId: string; stream: string; text: string; dropped: number; snapshot?: boolean }
  | ({ type: 'tool.message' } & ToolMessage)
  | { type: 'turn.started'; turn: Turn }
  | {
      type: 'turn.complete';
      status: TurnState;
      reason: string | null;
      usage?: ChatUsage | null;
      costMicros?: number | null;
    }
  | { type: 'turn.queued'; turn: Turn }
  | { type: 'turn.removed' }
  | { type: 'sandbox.updated'; name: string; sandboxId: string; state: string }
  | { type: 'service.updated'; service: Service }
  | { type: 'artifact.created'; attachment: Attachment }
  | { type: 'attachment.updated'; attachment: Attachment }
  | { type: 'approval.requested'; toolCallId: string; why: string | null }
  | { type: 'context.compacted'; beforeTokens: number; afterTokens: number }
  | { type: 'chat.updated'; chat: Chat }
  | { type: 'chat.restored'; messageId: string; removedMessages: number }
  | ({ type: 'error' } & ChatFault);

/** An event of a chat. Ids only grow; events without one are not about the chat. */
export type ChatEvent = EventBody & { id: number; chatId: string; turnId: string | null; at: string };
