// A chat as a server has it, for tests: random events, and the page of messages after each of them.
import type { Chat, ChatEvent, Message, MessagePage, Part, ToolCall, Turn } from '../../api/chat-types';

export function random(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) >>> 0;
    state = Math.imul(state ^ (state >>> 12), 0x297a2d39) >>> 0;
    state = (state ^ (state >>> 15)) >>> 0;
    state = (state + 0x9e3779b9) >>> 0;
    return state / 2 ** 32;
  };
}

const AT = '2026-01-01T00:00:00Z';
const USAGE = { inputTokens: 0, cachedTokens: 0, outputTokens: 0, costMicros: 0 };

export class FakeChat {
  readonly events: ChatEvent[] = [];
  messages: Message[] = [];
  queued: Turn[] = [];
  turnId: string | null = null;
  status: Chat['status'] = 'idle';
  sandboxes: Chat['sandboxes'] = [];
  #id = 0;
  #names = 0;
  readonly #next: () => number;

  constructor(seed: number) {
    this.#next = random(seed);
  }

  get lastEventId(): number {
    return this.#id;
  }

  chat(): Chat {
    return structuredClone({
      id: 'chat_1',
      title: 'A chat',
      projectId: 'default',
      agentId: null,
      model: 'demo/demo',
      status: this.status,
      parentId: null,
      sandboxId: null,
      browserSandboxId: null,
      sandboxes: this.sandboxes,
      tools: [],
      access: 'private',
      usage: USAGE,
      contextTokens: 0,
      contextWindow: 1000,
      turnId: this.turnId,
      queued: this.queued,
      lastEventId: this.#id,
      metadata: {},
      createdAt: AT,
      updatedAt: AT,
    });
  }

  page(): MessagePage {
    return structuredClone({ messages: this.messages, turns: [], more: false, lastEventId: this.#id });
  }

  /** One random thing happens. */
  step(): void {
    const last = this.messages.at(-1);
    const call = last?.toolCalls?.find((one) => one.status !== 'success');
    const answered = last?.status === 'complete' && last.toolCalls?.length && !call;
    if (this.turnId === null) this.#startTurn();
    else if (last?.role === 'user' || answered) this.#say('assistant', [], 'streaming');
    else if (last?.status === 'streaming' && this.#chance(0.75)) this.#delta(last);
    else if (last?.status === 'streaming') this.#complete(last);
    else if (call) this.#advance(call);
    else this.#endTurn();
  }

  #chance(part: number): boolean {
    return this.#next() < part;
  }

  #name(prefix: string): string {
    this.#names += 1;
    return `${prefix}_${this.#names}`;
  }

  #emit(event: Record<string, unknown> & { type: string }): void {
    // Ids grow and are not dense.
    this.#id += 1 + Math.floor(this.#next() * 3);
    const rest = structuredClone(event);
    this.events.push({ id: this.#id, chatId: 'chat_1', turnId: this.turnId, at: AT, ...rest } as unknown as ChatEvent);
  }

  turn(id: string): Turn {
    const messageId = `msg of ${id}`;
    const status = 'running';
    return {
      id,
      chatId: 'chat_1',
      messageId,
      status,
      reason: null,
      steps: 0,
      usage: USAGE,
      prompt: id,
      createdAt: AT,
      endedAt: null,
    };
  }

  #startTurn(): void {
    if (this.messages.length > 6 && this.#chance(0.15)) {
      const at = this.messages.findLastIndex((one) => one.role === 'user');
      const messageId = this.messages[at]!.id;
      const removedMessages = this.messages.length - at;
      this.messages = this.messages.slice(0, at);
      this.#emit({ type: 'chat.restored', messageId, removedMessages });
      return;
    }
    const turn = this.queued.shift() ?? this.turn(this.#name('turn'));
    this.turnId = turn.id;
    this.status = 'running';
    this.#emit({ type: 'turn.started', turn });
    this.#say('user', [{ type: 'text', text: turn.prompt }], 'complete');
  }

  #say(role: Message['role'], content: Part[], status: Message['status']): void {
    const id = this.#name('msg');
    const message: Message = {
      id,
      chatId: 'chat_1',
      turnId: this.turnId!,
      role,
      author: null,
      status,
      content,
      createdAt: AT,
    };
    this.messages.push(message);
    this.#emit({ type: 'message.created', message });
  }

  #delta(message: Message): void {
    const type = this.#chance(0.2) ? 'reasoning' : 'text';
    const text = this.#name(' w');
    const last = message.content.at(-1);
    if (last?.type === type) last.text += text;
    else message.content.push({ type, text });
    if (this.#chance(0.1)) this.#emit({ type: 'message.snapshot', message });
    else this.#emit({ type: 'message.delta', messageId: message.id, delta: { [type]: text } });
    if (this.#chance(0.1)) {
      const turn = this.turn(this.#name('turn'));
      this.queued.push(turn);
      const running = this.turnId;
      this.turnId = turn.id;
      this.#emit({ type: 'turn.queued', turn });
      this.turnId = running;
    }
  }

  #complete(message: Message): void {
    message.status = 'complete';
    const count = Math.floor(this.#next() * 4);
    message.toolCalls = Array.from({ length: count }, () => this.#call(message));
    for (const call of message.toolCalls) {
      message.content.push({ type: 'tool_call', toolCallId: call.id, name: call.name, arguments: call.arguments });
    }
    this.#emit({
      type: 'message.complete',
      message,
      stopReason: count > 0 ? 'tools' : 'end',
      usage: USAGE,
      costMicros: 0,
    });
    message.stopReason = count > 0 ? 'tools' : 'end';
  }

  #call(message: Message): ToolCall {
    return {
      id: this.#name('call'),
      messageId: message.id,
      name: 'sandbox_run_command',
      title: 'Run it',
      arguments: { command: 'it' },
      sandboxId: null,
      status: 'pending',
      output: '',
      data: null,
      error: null,
      truncated: false,
      durationMs: null,
      attachments: [],
    };
  }

  #advance(call: ToolCall): void {
    if (call.status === 'pending') {
      call.status = this.#chance(0.2) ? 'approval' : 'running';
      const { id, messageId, name, title, status } = call;
      this.#emit({
        type: 'tool.call',
        toolCall: { id, messageId, name, title, arguments: call.arguments, sandboxId: null, status },
      });
      if (status !== 'approval') return;
      call.why = 'it must be asked';
      this.#emit({ type: 'approval.requested', toolCallId: id, why: call.why });
      this.status = 'waiting';
      this.#emit({ type: 'turn.complete', status: 'waiting', reason: 'approval', usage: USAGE, costMicros: 0 });
    } else if (call.status === 'approval') {
      this.status = 'running';
      this.#emit({ type: 'turn.started', turn: this.turn(this.turnId!) });
      call.status = 'running';
      this.#emit({ type: 'tool.call', toolCall: { ...call, output: undefined } });
    } else if (this.#chance(0.7)) {
      const text = `${this.#name('line')}\n`;
      const snapshot = this.#chance(0.2);
      call.output = snapshot ? text : call.output + text;
      this.#emit({
        type: 'tool.output',
        toolCallId: call.id,
        stream: 'stdout',
        text,
        dropped: 0,
        ...(snapshot ? { snapshot } : {}),
      });
    } else {
      call.status = 'success';
      Object.assign(call, { output: 'it ran', data: { exitCode: 0 }, durationMs: 5 });
      const { id: toolCallId, name, output, data, error, truncated, durationMs, attachments, status } = call;
      this.#emit({
        type: 'tool.message',
        toolCallId,
        name,
        status,
        output,
        data,
        error,
        truncated,
        durationMs,
        attachments,
      });
      if (this.#chance(0.3)) {
        this.sandboxes = [{ name: 'main', role: 'code', sandboxId: 'i1', state: this.#name('state') }];
        this.#emit({ type: 'sandbox.updated', name: 'main', sandboxId: 'i1', state: this.sandboxes[0]!.state });
      }
    }
  }

  #endTurn(): void {
    this.#emit({ type: 'turn.complete', status: 'complete', reason: null, usage: USAGE, costMicros: 0 });
    this.turnId = null;
    this.status = 'idle';
    const id = this.#id + 1;
    this.#emit({ type: 'chat.updated', chat: { ...this.chat(), lastEventId: id } });
    if (this.queued.length > 0 && this.#chance(0.3)) {
      const turn = this.queued.pop()!;
      this.turnId = turn.id;
      this.#emit({ type: 'turn.removed' });
      this.turnId = null;
    }
  }
}
