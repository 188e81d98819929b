// One WebSocket for all topics of a tab. Knows nothing of React or caches.
import type { LiveMessage } from '../api/types';
import { backoff } from './backoff';

/** `connected`; `connecting` for the first time; `lost`: it was connected, and tries again; `closed`: nothing to do. */
export type LiveState = 'closed' | 'connecting' | 'connected' | 'lost';
export type LiveHandler = (message: LiveMessage) => void;

export const SIGNED_OUT = 4401;
const SILENCE = 40_000;

export interface LiveOptions {
  address: () => string;
  /** Topics of which messages may be missing: before a subscription holds, and when the server says so. */
  onGap?: (topics: string[]) => void;
  onSignedOut?: () => void;
  open?: (address: string) => WebSocket;
}

interface Topic {
  handlers: Set<LiveHandler>;
  /** Asked at each (re)connection, for topics that go on where they were. */
  after?: () => number | undefined;
}

export class LiveSocket {
  readonly #options: LiveOptions;
  readonly #topics = new Map<string, Topic>();
  readonly #listeners = new Set<() => void>();
  #socket: WebSocket | null = null;
  #state: LiveState = 'closed';
  #tries = 0;
  #hadConnection = false;
  #enabled = false;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  get state(): LiveState {
    return this.#state;
  }

  /** Connects and stays connected, until `stop`. */
  start(): void {
    if (this.#enabled) return;
    this.#enabled = true;
    this.#connect();
  }

  stop(): void {
    this.#enabled = false;
    this.#hadConnection = false;
    clearTimeout(this.#retry);
    this.#drop();
    this.#become('closed');
  }

  /** Tries at once, if it waits for the next try. */
  retryNow(): void {
    if (!this.#enabled || this.#socket) return;
    clearTimeout(this.#retry);
    this.#connect();
  }

  onState(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  subscribe(name: string, handler: LiveHandler, after?: () => number | undefined): () => void {
    let topic = this.#topics.get(name);
    if (!topic) {
      topic = { handlers: new Set(), after };
      this.#topics.set(name, topic);
      this.#ask(name, topic);
    }
    const { handlers } = topic;
    handlers.add(handler);
    return () => {
      if (!handlers.delete(handler) || handlers.size > 0 || this.#topics.get(name)?.handlers !== handlers) return;
      this.#topics.delete(name);
      this.#send({ unsubscribe: name });
    };
  }

  /** Says that somebody looks at a service. False if there is no connection. */
  presence(service: string): boolean {
    return this.#send({ presence: service });
  }

  #connect(): void {
    this.#become(this.#hadConnection ? 'lost' : 'connecting');
    const open = this.#options.open ?? ((address: string) => new WebSocket(address));
    const socket = open(this.#options.address());
    this.#socket = socket;
    this.#listen();
    socket.onopen = () => {
      if (socket !== this.#socket) return;
      this.#hadConnection = true;
      this.#tries = 0;
      for (const [name, topic] of this.#topics) this.#ask(name, topic);
      this.#become('connected');
    };
    socket.onmessage = (event) => {
      if (socket !== this.#socket) return;
      this.#listen();
      if (typeof event.data === 'string') this.#receive(event.data);
    };
    socket.onclose = (event) => {
      if (socket !== this.#socket) return;
      this.#drop();
      if (event.code === SIGNED_OUT) {
        this.stop();
        this.#options.onSignedOut?.();
      } else if (this.#enabled) {
        this.#become(this.#hadConnection ? 'lost' : 'connecting');
        this.#retry = setTimeout(() => this.#connect(), backoff(this.#tries++));
      }
    };
  }

  #receive(text: string): void {
    let message: { type?: string; topic?: string };
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    if (message.type === 'ping') this.#send({ pong: true });
    if (!message.topic) return;
    // What was fetched before the subscription held may be old already.
    if (message.type === 'subscribed' || message.type === 'lagged') {
      this.#options.onGap?.([message.topic]);
      if (message.type === 'subscribed') return;
    }
    for (const handler of this.#topics.get(message.topic)?.handlers ?? []) handler(message as LiveMessage);
  }

  #ask(name: string, topic: Topic): void {
    const after = topic.after?.();
    this.#send(after === undefined ? { subscribe: name } : { subscribe: name, after });
  }

  #send(value: unknown): boolean {
    if (this.#socket?.readyState !== 1) return false;
    this.#socket.send(JSON.stringify(value));
    return true;
  }

  /** The server pings every 15 s. A socket that says nothing for longer is dead, though nobody closed it. */
  #listen(): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#socket?.close(), SILENCE);
  }

  #drop(): void {
    clearTimeout(this.#silence);
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #become(state: LiveState): void {
    if (state === this.#state) return;
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}
