// The live socket of this tab, and hooks for pages.
//   useLive('sandbox:abc', (message) => …)   subscribes while the component is mounted
//   useLiveState()                           for the shell: 'connected' | 'lost' | …
import { useEffect, useEffectEvent, useSyncExternalStore } from 'react';
import { endSession } from '../api/client';
import { queryClient } from '../query-client';
import { keysOf } from './caches';
import { freshen } from './fresh';
import { type LiveHandler, LiveSocket, type LiveState } from './socket';

export type { LiveMessage } from '../api/types';
export type { LiveHandler, LiveState } from './socket';

function address(): string {
  return `${location.protocol === 'https:' ? 'wss:' : 'ws:'}//${location.host}/live`;
}

export const live = new LiveSocket({
  address,
  onGap: (topics) => {
    for (const topic of topics) refetch(topic);
  },
  onSignedOut: endSession,
});

if (typeof window !== 'undefined') window.addEventListener('online', () => live.retryNow());

/** Fetches again what a topic is about. */
export function refetch(topic: string): void {
  for (const queryKey of keysOf(topic)) freshen(queryClient, queryKey);
}

/**
 * Calls `handler` with each message of a topic. `null` subscribes to nothing. `after` gives the place from which a
 * build's log or a chat goes on; it is asked again at each reconnection.
 */
export function useLive(topic: string | null, handler: LiveHandler, after?: () => number | undefined): void {
  const handle = useEffectEvent(handler);
  const offset = useEffectEvent(() => after?.());
  useEffect(() => {
    if (topic === null) return;
    return live.subscribe(
      topic,
      (message) => handle(message),
      () => offset(),
    );
  }, [topic]);
}

/** Keeps the queries of a topic fresh: each message fetches them again. For pages without something finer. */
export function useLiveQueries(topic: string | null): void {
  useLive(topic, (message) => {
    if (message.type !== 'error' && message.type !== 'lagged') refetch(message.topic);
  });
}

export function useLiveState(): LiveState {
  return useSyncExternalStore(
    (listener) => live.onState(listener),
    () => live.state,
  );
}
