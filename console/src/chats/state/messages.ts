// Messages and their calls after an event. Pure: what does not change stays the same object.
import type { Message, Part, ToolCall, ToolMessage } from '../../api/chat-types';
import type { CallView, MessageView } from './types';

/** Characters of a command's output that are kept, as many as a page of messages brings. */
export const MOST_OUTPUT = 65_536;
/** Characters of a message that still grows; no model writes as much. */
const MOST_TEXT = 4_000_000;

export function callView(call: ToolCall, live = ''): CallView {
  const running = call.status === 'running';
  return {
    ...call,
    title: call.title ?? '',
    output: running ? '' : (call.output ?? ''),
    data: call.data ?? null,
    error: call.error ?? null,
    truncated: call.truncated ?? false,
    durationMs: call.durationMs ?? null,
    attachments: call.attachments ?? [],
    live: running ? (call.output || live).slice(-MOST_OUTPUT) : live,
  };
}

/** A call of which only the model's words are known. */
function announced(part: Extract<Part, { type: 'tool_call' }>, messageId: string): CallView {
  return callView({
    id: part.toolCallId,
    messageId,
    name: part.name,
    title: '',
    arguments: part.arguments,
    sandboxId: null,
    status: 'pending',
    output: '',
    data: null,
    error: null,
    truncated: false,
    durationMs: null,
    attachments: [],
  });
}

/** A message of the server, with what is known of its calls. */
export function messageView(message: Message, before?: MessageView): MessageView {
  const { toolCalls, ...rest } = message;
  const known = new Map((before?.calls ?? []).map((call) => [call.id, call]));
  for (const call of toolCalls ?? []) known.set(call.id, callView(call, known.get(call.id)?.live));
  const calls: CallView[] = [];
  for (const part of message.content ?? []) {
    if (part.type !== 'tool_call') continue;
    calls.push(known.get(part.toolCallId) ?? announced(part, message.id));
    known.delete(part.toolCallId);
  }
  calls.push(...known.values());
  return { ...rest, content: message.content ?? [], calls };
}

export function putMessage(messages: readonly MessageView[], message: Message): readonly MessageView[] {
  const at = messages.findLastIndex((one) => one.id === message.id);
  if (at < 0) return [...messages, messageView(message)];
  return messages.with(at, messageView(message, messages[at]));
}

export function addDelta(
  messages: readonly MessageView[],
  id: string,
  delta: { text?: string; reasoning?: string },
): readonly MessageView[] {
  const at = messages.findLastIndex((one) => one.id === id);
  const message = messages[at];
  if (!message) return messages;
  let content: readonly Part[] = message.content;
  if (delta.reasoning) content = grown(content, 'reasoning', delta.reasoning);
  if (delta.text) content = grown(content, 'text', delta.text);
  return messages.with(at, { ...message, content: content as Part[] });
}

function grown(content: readonly Part[], type: 'text' | 'reasoning', text: string): readonly Part[] {
  const last = content.at(-1);
  if (last?.type !== type) return [...content, { type, text }];
  if (last.text.length > MOST_TEXT) return content;
  return content.with(-1, { type, text: last.text + text });
}

/** Changes one call, wherever it is; the newest messages are looked at first. */
export function changeCall(
  messages: readonly MessageView[],
  id: string,
  change: (call: CallView) => CallView,
): readonly MessageView[] {
  for (let at = messages.length - 1; at >= 0; at--) {
    const message = messages[at]!;
    const index = message.calls.findIndex((call) => call.id === id);
    if (index < 0) continue;
    return messages.with(at, { ...message, calls: message.calls.with(index, change(message.calls[index]!)) });
  }
  return messages;
}

export function putCall(
  messages: readonly MessageView[],
  given: Partial<ToolCall> & Pick<ToolCall, 'id' | 'messageId' | 'name'>,
): readonly MessageView[] {
  const at = messages.findLastIndex((one) => one.id === given.messageId);
  const message = messages[at];
  if (!message) return messages;
  const index = message.calls.findIndex((call) => call.id === given.id);
  const old = message.calls[index];
  const base =
    old ?? announced({ type: 'tool_call', toolCallId: given.id, name: given.name, arguments: {} }, message.id);
  const call: CallView = callView({ ...base, ...given, output: given.output ?? base.output }, old?.live);
  const calls = index < 0 ? [...message.calls, call] : message.calls.with(index, call);
  return messages.with(at, { ...message, calls });
}

export function addOutput(call: CallView, event: { text: string; dropped: number; snapshot?: boolean }): CallView {
  if (call.status === 'success' || call.status === 'error') return call;
  const before = event.snapshot ? '' : call.live;
  const gap = !event.snapshot && event.dropped > 0 ? `\n[… ${event.dropped} bytes left out …]\n` : '';
  return { ...call, live: (before + gap + event.text).slice(-MOST_OUTPUT) };
}

export function finish(call: CallView, event: ToolMessage): CallView {
  return {
    ...call,
    status: event.status,
    output: event.output ?? '',
    data: event.data ?? null,
    error: event.error ?? null,
    truncated: event.truncated ?? false,
    durationMs: event.durationMs ?? null,
    attachments: event.attachments ?? [],
  };
}
