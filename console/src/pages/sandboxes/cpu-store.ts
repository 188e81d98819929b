// The CPU use of the rows that are on the screen: one request for all of them, and a few samples of each are kept.

export interface Sample {
  at: number;
  percent: number;
}

export interface CpuOptions {
  /** The newest sample of each; those that are not up are left out. */
  fetch: (ids: string[], signal: AbortSignal) => Promise<Record<string, Sample>>;
  /** Milliseconds between two requests. */
  every?: number;
  /** Milliseconds that rows must stay before they are asked for: scrolling by asks nothing. */
  settle?: number;
  isHidden?: () => boolean;
}

const SAMPLES = 32;
const ROWS = 400;
const MOST_IDS = 100;
const NONE: readonly Sample[] = [];

export class CpuStore {
  readonly #options: Required<CpuOptions>;
  readonly #samples = new Map<string, readonly Sample[]>();
  readonly #watchers = new Map<string, Set<() => void>>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #request: AbortController | null = null;
  #last = 0;

  constructor(options: CpuOptions) {
    this.#options = { every: 5000, settle: 250, isHidden: () => false, ...options };
  }

  /** The same array until there is a new sample. */
  get(id: string): readonly Sample[] {
    return this.#samples.get(id) ?? NONE;
  }

  watch(id: string, listener: () => void): () => void {
    let watchers = this.#watchers.get(id);
    const isNew = !watchers;
    watchers ??= new Set();
    watchers.add(listener);
    this.#watchers.set(id, watchers);
    if (isNew) this.#plan(this.#samples.has(id) ? this.#options.every : this.#options.settle);
    return () => {
      watchers.delete(listener);
      if (watchers.size > 0) return;
      this.#watchers.delete(id);
      if (this.#watchers.size === 0) this.#stop();
    };
  }

  /** The earlier of what is planned and `ms` from now; a row that is new pushes back another that is new. */
  #plan(ms: number): void {
    if (this.#request) return;
    const due = Math.max(0, this.#last + this.#options.every - Date.now());
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(), ms >= this.#options.every && this.#last ? due : ms);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#request?.abort();
    this.#request = null;
    this.#last = 0;
  }

  async #ask(): Promise<void> {
    const ids = [...this.#watchers.keys()].slice(0, MOST_IDS);
    if (ids.length === 0) return;
    if (this.#options.isHidden()) {
      this.#timer = setTimeout(() => void this.#ask(), this.#options.every);
      return;
    }
    const request = new AbortController();
    this.#request = request;
    this.#last = Date.now();
    try {
      this.#take(await this.#options.fetch(ids, request.signal));
    } catch {
      // A sample is missing; the next request brings another.
    }
    if (this.#request !== request) return;
    this.#request = null;
    if (this.#watchers.size > 0) this.#timer = setTimeout(() => void this.#ask(), this.#options.every);
  }

  #take(found: Record<string, Sample>): void {
    for (const [id, sample] of Object.entries(found)) {
      const old = this.#samples.get(id) ?? NONE;
      if (old.at(-1)?.at === sample.at) continue;
      this.#samples.delete(id);
      this.#samples.set(id, [...old.slice(1 - SAMPLES), sample]);
      for (const listener of this.#watchers.get(id) ?? []) listener();
    }
    // The oldest go first: a map keeps the order in which it was written.
    for (const id of this.#samples.keys()) {
      if (this.#samples.size <= ROWS) break;
      if (!this.#watchers.has(id)) this.#samples.delete(id);
    }
  }
}

/** A line through samples, in a box of `width` by `height`: what `d` of an SVG path wants. */
export function sparkPath(samples: readonly Sample[], width: number, height: number): string {
  if (samples.length === 0) return '';
  const y = (sample: Sample) =>
    (height - 1 - (Math.min(100, Math.max(0, sample.percent)) / 100) * (height - 2)).toFixed(1);
  const points = samples.length === 1 ? [samples[0]!, samples[0]!] : samples;
  const step = width / (SAMPLES - 1);
  const first = width - step * (points.length - 1);
  return points.map((sample, i) => `${i === 0 ? 'M' : 'L'}${(first + i * step).toFixed(1)} ${y(sample)}`).join('');
}
