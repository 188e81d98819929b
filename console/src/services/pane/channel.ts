// The conversation with the page in a frame. Knows nothing of React.
import { type FromPage, type Rect, type ToPage, VERSION } from '../../bridge/messages';
import { budget } from '../../bridge/natives';
import { readMessage } from './read-message';

export type Shot = Extract<FromPage, { type: 'captured' }>;
type News = Exclude<FromPage, { type: 'captured' | 'capture_failed' }>;

/** A page that says nothing for so long after it was asked does not answer. */
const SILENCE_MS = 2000;
const CAPTURE_MS = 12_000;
const MOST_MESSAGES = 200;
const MESSAGES_MS = 10_000;

/** Why there is no picture: `silent` if the page said nothing at all. */
export class CaptureError extends Error {
  readonly silent: boolean;

  constructor(message: string, silent = false) {
    super(message);
    this.name = 'CaptureError';
    this.silent = silent;
  }
}

/** A window that can be spoken to. */
export interface Listener {
  postMessage(message: unknown, origin: string): void;
}

export interface ChannelOptions {
  /** The frame's window, as it is now. */
  page: () => Listener | null;
  origin: string;
  onNews: (news: News) => void;
  now?: () => number;
}

interface Pending {
  id: string;
  resolve: (shot: Shot) => void;
  reject: (error: CaptureError) => void;
  timer: ReturnType<typeof setTimeout>;
}

export class Channel {
  readonly #options: ChannelOptions;
  readonly #now: () => number;
  readonly #allowed = budget(MOST_MESSAGES, MESSAGES_MS);
  #pending: Pending | null = null;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #count = 0;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Takes a message event of this window, if it is of the page. */
  receive(event: Pick<MessageEvent, 'source' | 'origin' | 'data'>): void {
    const { page, origin, onNews } = this.#options;
    const source = page();
    if (source === null || event.source !== source || event.origin !== origin) return;
    const message = readMessage(event.data);
    if (!message) return;
    clearTimeout(this.#silence);
    if (message.type === 'captured' || message.type === 'capture_failed') {
      const pending = this.#pending;
      if (pending?.id !== message.id) return;
      this.#settle();
      if (message.type === 'captured') pending.resolve(message);
      else pending.reject(new CaptureError(message.reason));
    } else if (this.#allowed(this.#now())) {
      onNews(message);
    }
  }

  send(message: ToPage): void {
    this.#options.page()?.postMessage({ cabana: VERSION, ...message }, this.#options.origin);
  }

  /** Sends a message; `silent` is called if the page says nothing then. */
  ask(message: ToPage, silent: () => void): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(silent, SILENCE_MS);
    this.send(message);
  }

  /** A picture of a part of the page. One at a time: a new one ends the one before. */
  capture(rect?: Rect): Promise<Shot> {
    this.#fail('another one was asked for');
    return new Promise((resolve, reject) => {
      this.#count += 1;
      const id = `${this.#count}-${Math.random().toString(36).slice(2, 12)}`;
      const timer = setTimeout(() => this.#fail('it took longer than 12 s'), CAPTURE_MS);
      this.#pending = { id, resolve, reject, timer };
      this.ask({ type: 'capture', id, rect }, () => this.#fail('the page does not answer', true));
    });
  }

  close(): void {
    clearTimeout(this.#silence);
    this.#fail('the page was closed');
  }

  #fail(reason: string, silent = false): void {
    const pending = this.#pending;
    this.#settle();
    pending?.reject(new CaptureError(reason, silent));
  }

  #settle(): void {
    if (this.#pending) clearTimeout(this.#pending.timer);
    this.#pending = null;
  }
}
