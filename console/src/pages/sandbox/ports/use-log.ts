// The log of a service, followed while it is shown.
import { useCallback, useEffect, useState } from 'react';
import { followServiceLogs, isApiError, type ServiceLogEnd } from '../../../api';
import { backoff } from '../../../live/backoff';
import { append, EMPTY_TAIL, type Tail } from './tail';

const BATCH_MS = 100;

export interface Followed {
  tail: Tail;
  /** After it there is no more. */
  end: ServiceLogEnd | null;
  /** Why it is not followed. */
  error: unknown;
  /** The connection was lost, and is made again. */
  lost: boolean;
  retry: () => void;
}

/** `run` changes where the log goes on after its end, as when the service is started again. */
export function useServiceLog(id: string, run: string): Followed {
  const [tail, setTail] = useState<Tail>(EMPTY_TAIL);
  const [end, setEnd] = useState<ServiceLogEnd | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [lost, setLost] = useState(false);
  const [tries, setTries] = useState(0);

  // biome-ignore lint/correctness/useExhaustiveDependencies: `run` and `tries` are what begins again
  useEffect(() => {
    const leave = new AbortController();
    const { signal } = leave;
    let next = EMPTY_TAIL;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = () => {
      timer = undefined;
      if (!signal.aborted) setTail(next);
    };
    async function follow(): Promise<void> {
      for (let failures = 0; !signal.aborted; failures += 1) {
        // Each connection begins with the tail again.
        next = EMPTY_TAIL;
        try {
          const told = await followServiceLogs(id, {
            signal,
            onLines: (lines) => {
              failures = 0;
              setLost(false);
              next = append(next, lines);
              timer ??= setTimeout(show, BATCH_MS);
            },
          });
          if (signal.aborted) return;
          if (told) {
            show();
            setLost(false);
            setEnd(told);
            return;
          }
        } catch (cause) {
          if (signal.aborted) return;
          // What the server refused stays refused.
          if (isApiError(cause) && cause.code >= 400 && cause.code < 500 && cause.code !== 429) {
            setError(cause);
            return;
          }
        }
        setLost(true);
        await new Promise((resolve) => setTimeout(resolve, backoff(failures)));
      }
    }
    setEnd(null);
    setError(null);
    void follow();
    return () => {
      leave.abort();
      clearTimeout(timer);
    };
  }, [id, run, tries]);

  const retry = useCallback(() => setTries((count) => count + 1), []);
  return { tail, end, error, lost, retry };
}
