// One open chat: fetches its page, applies its events in order, and fetches again when some may be missing. No React.
import type { Chat, ChatEvent, MessagePage, StartedTurn } from '../../api/chat-types';
import { applyEvent, withOlder, withPage, withStarted } from '../state/reduce';
import { type ChatView, EMPTY } from '../state/types';

export interface StoreOptions {
  page: (before?: string) => Promise<MessagePage>;
  chat: () => Promise<Chat>;
  /** Calls back soon, once for many changes. */
  soon?: (run: () => void) => void;
  later?: (run: () => void, ms: number) => unknown;
}

export interface StoreState {
  view: ChatView;
  /** Whether the page was fetched, and events are wanted. */
  ready: boolean;
  /** Why it could not be fetched. */
  error: unknown;
  loadingOlder: boolean;
  olderError: unknown;
}

/** Events that wait for the page. With more of them, it is fetched once more. */
const MOST_WAITING = 20_000;
const DELAYS = [0, 1000, 2000, 5000, 10_000];

export class ChatStore {
  readonly #options: StoreOptions;
  readonly #listeners = new Set<() => void>();
  #state: StoreState = { view: EMPTY, ready: false, error: null, loadingOlder: false, olderError: null };
  #told: StoreState = this.#state;
  #loading = false;
  #again = false;
  #waiting: ChatEvent[] = [];
  #failures = 0;
  #stopped = false;
  #planned = false;

  constructor(options: StoreOptions) {
    this.#options = options;
  }

  /** As it was told last. */
  get state(): StoreState {
    return this.#told;
  }

  /** As it is now. */
  get view(): ChatView {
    return this.#state.view;
  }

  listen = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  start(): void {
    this.#stopped = false;
    void this.load();
  }

  stop(): void {
    this.#stopped = true;
  }

  /** A message of the live socket about this chat. */
  receive(frame: { type: string; id?: unknown }): void {
    if (frame.type === 'lagged' || frame.type === 'stream.end') void this.load();
    else if (typeof frame.id === 'number') this.#take(frame as ChatEvent);
    // Without an id it is the socket that complains, and the subscription is over.
    else if (frame.type === 'error') this.#reload();
  }

  /** Fetches the newest messages and the chat itself. What comes meanwhile is applied after them. */
  async load(): Promise<void> {
    if (this.#loading) {
      this.#again = true;
      return;
    }
    this.#loading = true;
    this.#again = false;
    try {
      const [page, chat] = await Promise.all([this.#options.page(), this.#options.chat()]);
      // The chat must not be older than the messages: events between them would be lost to it.
      const fresh = chat.lastEventId < page.lastEventId ? await this.#options.chat() : chat;
      if (this.#stopped) return;
      this.#failures = 0;
      this.#set({ view: withPage(this.#state.view, page, fresh), ready: true, error: null });
    } catch (error) {
      if (this.#stopped) return;
      this.#set({ error });
      if (isGone(error)) this.#waiting = [];
      else this.#retry();
    } finally {
      this.#loading = false;
    }
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const event of waiting) this.#take(event);
    if (this.#again) void this.load();
  }

  /** Messages before those that are here. */
  async older(): Promise<void> {
    const first = this.#state.view.messages[0]?.id;
    if (this.#state.loadingOlder || !this.#state.view.more || !first) return;
    this.#set({ loadingOlder: true, olderError: null });
    try {
      const page = await this.#options.page(first);
      this.#set({ view: withOlder(this.#state.view, page, first), loadingOlder: false });
    } catch (olderError) {
      this.#set({ loadingOlder: false, olderError });
    }
  }

  /** Asks whether there is more than is here, and fetches it. For tabs that come back. */
  async check(wait = 1500): Promise<void> {
    if (!this.#state.ready) return void this.load();
    try {
      const { lastEventId } = await this.#options.chat();
      if (lastEventId <= this.#state.view.lastEventId) return;
      // The socket is usually about to bring it.
      (this.#options.later ?? setTimeout)(() => {
        if (!this.#stopped && lastEventId > this.#state.view.lastEventId) void this.load();
      }, wait);
    } catch {
      // The socket says that the server cannot be reached.
    }
  }

  started(answer: StartedTurn): void {
    this.#set({ view: withStarted(this.#state.view, answer) });
  }

  /** What a person changed, before the server tells it to everyone. */
  patch(change: Partial<Pick<Chat, 'title' | 'model' | 'agentId' | 'tools'>>): void {
    const { view } = this.#state;
    if (view.chat) this.#set({ view: { ...view, chat: { ...view.chat, ...change } } });
  }

  gone(error: unknown): void {
    this.#stopped = true;
    this.#set({ error });
  }

  #take(event: ChatEvent): void {
    if (this.#loading) {
      if (this.#waiting.length < MOST_WAITING) this.#waiting.push(event);
      else this.#again = true;
      return;
    }
    let view: ChatView;
    try {
      view = applyEvent(this.#state.view, event);
    } catch {
      // An event in a form that is not known here. The page has what came of it.
      view = { ...this.#state.view, lastEventId: event.id, stale: true };
    }
    if (view === this.#state.view) return;
    this.#set({ view });
    if (view.stale) void this.load();
  }

  #reload(): void {
    this.#set({ ready: false });
    this.#retry();
  }

  #retry(): void {
    const delay = DELAYS[Math.min(this.#failures++, DELAYS.length - 1)]!;
    (this.#options.later ?? setTimeout)(() => !this.#stopped && void this.load(), Math.max(delay, 200));
  }

  #set(change: Partial<StoreState>): void {
    this.#state = { ...this.#state, ...change };
    if (this.#planned) return;
    this.#planned = true;
    (this.#options.soon ?? nextFrame)(() => {
      this.#planned = false;
      this.#told = this.#state;
      for (const listener of this.#listeners) listener();
    });
  }
}

const isGone = (error: unknown): boolean => (error as { code?: unknown } | null)?.code === 404;

/** In a tab that is not seen there are no frames. */
function nextFrame(run: () => void): void {
  if (document.visibilityState === 'visible') requestAnimationFrame(run);
  else setTimeout(run, 250);
}
