// One terminal over its WebSocket: reconnects to the same shell, and tells why it cannot. Knows nothing of the screen.
import { backoff } from '../live/backoff';

export type TerminalState =
  | { kind: 'connecting' }
  | { kind: 'open' }
  /** The connection is lost and tried again; `reason` is what the server said, if it said something. */
  | { kind: 'lost'; reason: string | null }
  | { kind: 'paused'; reason: string | null }
  /** The shell or its sandbox has ended; `gone`: the sandbox, or the shell was not there. */
  | { kind: 'ended'; exitCode: number | null; reason: string | null; gone: boolean }
  /** The server does not want this terminal. */
  | { kind: 'refused'; reason: string };

interface Socket {
  binaryType: string;
  readyState: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number; reason: string }) => void) | null;
  send(data: string | Uint8Array): void;
  close(): void;
}

export interface TerminalOptions {
  /** Address of the socket; with a pid, of a shell that runs. */
  address: (pid: number | null) => string;
  /** The shell to connect to first; null starts a new one. */
  pid: number | null;
  onState: (state: TerminalState) => void;
  /** The shell's id is known. `replay`: what comes next was shown before, so the screen begins anew. */
  onStarted: (started: { pid: number; replay: boolean; dropped: boolean }) => void;
  onOutput: (bytes: Uint8Array) => void;
  /** Asked when a socket fails before it begins, as browsers do not tell why: the reason that no try will help. */
  check?: () => Promise<string | null>;
  onSignedOut?: () => void;
  open?: (address: string) => Socket;
  wait?: (run: () => void, ms: number) => () => void;
}

/** Bytes of one message to the server, which takes up to 256 KiB. */
const PIECE = 32 * 1024;
/** Bytes that wait while the connection is lost: a key press or two, and not commands that run blindly later. */
const MAX_WAITING = 256;
const OPEN = 1;

const GONE = 4404;
const PAUSED = 4409;
const SIGNED_OUT = 4401;
const REFUSED = [4400, 4429];

const encoder = new TextEncoder();

export class TerminalConnection {
  readonly #options: TerminalOptions;
  #socket: Socket | null = null;
  #pid: number | null;
  #size: { cols: number; rows: number } | null = null;
  #ended: { exitCode: number | null; reason: string | null } | null = null;
  #began = false;
  #tries = 0;
  #cancel: (() => void) | null = null;
  #waiting: Uint8Array[] = [];
  #state: TerminalState = { kind: 'connecting' };
  #closed = false;

  constructor(options: TerminalOptions) {
    this.#options = options;
    this.#pid = options.pid;
  }

  get state(): TerminalState {
    return this.#state;
  }

  connect(): void {
    this.#cancel?.();
    this.#cancel = null;
    this.#drop();
    this.#ended = null;
    this.#began = false;
    const open = this.#options.open ?? ((address) => new WebSocket(address) as unknown as Socket);
    const socket = open(this.#options.address(this.#pid));
    socket.binaryType = 'arraybuffer';
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      if (typeof data === 'string') this.#hear(data);
      else if (data instanceof ArrayBuffer) this.#options.onOutput(new Uint8Array(data));
    };
    socket.onclose = ({ code, reason }) => this.#lost(code, reason);
  }

  /** Keys, pasted text and answers of the screen. */
  type(data: string | Uint8Array): void {
    const bytes = typeof data === 'string' ? encoder.encode(data) : data;
    if (this.#began && this.#socket?.readyState === OPEN) {
      for (let at = 0; at < bytes.length; at += PIECE) this.#socket.send(bytes.slice(at, at + PIECE));
      return;
    }
    const kept = this.#waiting.reduce((sum, piece) => sum + piece.length, 0);
    const willOpen = this.#state.kind === 'connecting' || this.#state.kind === 'lost';
    if (willOpen && kept + bytes.length <= MAX_WAITING) this.#waiting.push(bytes);
  }

  resize(cols: number, rows: number): void {
    if (this.#size?.cols === cols && this.#size.rows === rows) return;
    this.#size = { cols, rows };
    this.#sendSize();
  }

  /**
   * There is more output than the screen can take: what waits is thrown away, and the newest comes by a replay. A
   * browser's WebSocket cannot be read more slowly.
   */
  skip(): void {
    if (this.#pid === null || this.#state.kind !== 'open') return;
    this.#retry(200);
  }

  /** Tries now, instead of later. */
  retryNow(): void {
    if (this.#state.kind === 'open' || this.#closed) return;
    this.#become({ kind: 'connecting' });
    this.connect();
  }

  close(): void {
    this.#closed = true;
    this.#cancel?.();
    this.#drop();
  }

  #hear(text: string): void {
    let message: { started?: { pid?: number; replay?: boolean; dropped?: boolean }; ended?: Record<string, unknown> };
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    if (message.started && typeof message.started.pid === 'number') {
      const { pid, replay = false, dropped = false } = message.started;
      this.#pid = pid;
      this.#began = true;
      this.#tries = 0;
      this.#options.onStarted({ pid, replay, dropped });
      this.#become({ kind: 'open' });
      this.#sendSize();
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const bytes of waiting) this.type(bytes);
    }
    if (message.ended) {
      const { exitCode, reason } = message.ended;
      this.#ended = {
        exitCode: typeof exitCode === 'number' ? exitCode : null,
        reason: typeof reason === 'string' ? reason : null,
      };
    }
  }

  #lost(code: number, text: string): void {
    const began = this.#began;
    const final = endingOf(code, text, this.#ended);
    this.#drop();
    this.#become(final);
    if (code === SIGNED_OUT) this.#options.onSignedOut?.();
    if (final.kind !== 'lost') return;
    this.#retry(backoff(this.#tries++));
    if (!began && this.#options.check) {
      void this.#options.check().then((reason) => {
        if (!reason || this.#closed || this.#state.kind !== 'lost') return;
        this.#cancel?.();
        this.#become({ kind: 'ended', exitCode: null, reason, gone: true });
      });
    }
  }

  #retry(ms: number): void {
    this.#drop();
    if (this.#tries > 3) this.#waiting = [];
    const wait = this.#options.wait ?? later;
    this.#cancel = wait(() => this.connect(), ms);
  }

  #sendSize(): void {
    if (this.#size && this.#began && this.#socket?.readyState === OPEN) {
      this.#socket.send(JSON.stringify({ resize: this.#size }));
    }
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#began = false;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #become(state: TerminalState): void {
    this.#state = state;
    this.#options.onState(state);
  }
}

/** What the closing code and the last frame mean. */
function endingOf(
  code: number,
  text: string,
  ended: { exitCode: number | null; reason: string | null } | null,
): TerminalState {
  const reason = ended?.reason || text || null;
  if (code === PAUSED) return { kind: 'paused', reason };
  if (code === GONE) return { kind: 'ended', exitCode: null, reason, gone: true };
  if (code === SIGNED_OUT) return { kind: 'refused', reason: 'signed out' };
  if (REFUSED.includes(code)) return { kind: 'refused', reason: reason ?? `closed with ${code}` };
  if (code === 1000 && ended) return { kind: 'ended', ...ended, gone: false };
  return { kind: 'lost', reason };
}

function later(run: () => void, ms: number): () => void {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}
