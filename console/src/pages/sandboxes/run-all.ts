// One act on many things: a few requests at once, and the rest waits its turn. Pure.

export interface Failure<T> {
  item: T;
  error: unknown;
}

export interface Outcome<T> {
  done: T[];
  failed: Failure<T>[];
  /** Not tried: it was stopped before. */
  left: T[];
}

export interface RunOptions {
  /** Requests at once. */
  most: number;
  onProgress?: (ended: number, failed: number) => void;
  signal?: AbortSignal;
  /** Seconds to wait before the same is tried again; null: it has failed. */
  waitFor?: (error: unknown) => number | null;
  wait?: (seconds: number, signal?: AbortSignal) => Promise<void>;
}

const TRIES = 4;

const pause = (seconds: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });

export async function runAll<T>(
  items: readonly T[],
  act: (item: T) => Promise<unknown>,
  options: RunOptions,
): Promise<Outcome<T>> {
  const { most, onProgress, signal, waitFor = () => null, wait = pause } = options;
  const outcome: Outcome<T> = { done: [], failed: [], left: [] };
  let next = 0;
  const tell = () => onProgress?.(outcome.done.length + outcome.failed.length, outcome.failed.length);
  async function one(item: T): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      try {
        await act(item);
        outcome.done.push(item);
        tell();
        return;
      } catch (error) {
        const seconds = tries < TRIES && !signal?.aborted ? waitFor(error) : null;
        if (seconds === null) {
          outcome.failed.push({ item, error });
          tell();
          return;
        }
        await wait(seconds, signal);
      }
    }
  }
  async function worker(): Promise<void> {
    while (next < items.length && !signal?.aborted) {
      const item = items[next] as T;
      next += 1;
      await one(item);
    }
  }
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
  outcome.left = items.slice(next);
  return outcome;
}
