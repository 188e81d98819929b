// Times that go on by themselves: one clock for all of them.
import { useSyncExternalStore } from 'react';
import { duration, relative, utc } from '../format/time';

const TICK = 5_000;
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function tick(): void {
  if (document.hidden) return;
  now = Date.now();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (!timer) {
    now = Date.now();
    timer = setInterval(tick, TICK);
    document.addEventListener('visibilitychange', tick);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
    document.removeEventListener('visibilitychange', tick);
  };
}

/** Milliseconds since 1970, new every five seconds while the tab is seen. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

/** "2 h ago", "in 41 m", "12 Oct"; UTC on hover. */
export function Time({ at, className }: { at: string | number | null | undefined; className?: string }) {
  const current = useNow();
  if (at === null || at === undefined) return <span className={className}>–</span>;
  return (
    <time className={className} dateTime={iso(at)} title={utc(at)}>
      {relative(at, current)}
    </time>
  );
}

/** How long since a time: "1 h 02 m". */
export function Since({ at }: { at: string | number }) {
  const seconds = (useNow() - new Date(at).getTime()) / 1000;
  return (
    <time dateTime={iso(at)} title={utc(at)} className="num">
      {duration(seconds)}
    </time>
  );
}

/** "updated 40 s ago", for data that may be old. */
export function Updated({ at }: { at: number }) {
  const seconds = Math.max(0, Math.round((useNow() - at) / 1000));
  return <span className="meta num">updated {seconds < 5 ? 'now' : relative(at, at + seconds * 1000)}</span>;
}

function iso(at: string | number): string | undefined {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}
