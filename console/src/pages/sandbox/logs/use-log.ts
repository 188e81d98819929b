// The log of a sandbox: the newest page first, older ones on demand, newer ones as they come.
import { useCallback, useEffect, useRef, useState } from 'react';
import { sandboxLogs } from '../../../api';
import { useLive } from '../../../live';
import { type Line, merge } from './lines';

/** Lines that are kept at once; what is beyond is in the download. */
export const MOST = 50_000;
const PAGE = 1000;
const EVERY = 2000;
const LONGEST = 15_000;

export interface Log {
  lines: readonly Line[];
  /** The first page is there. */
  loaded: boolean;
  /** There is nothing older. */
  begun: boolean;
  /** No more lines are kept. */
  full: boolean;
  loadingOlder: boolean;
  error: unknown;
  older: () => void;
  retry: () => void;
}

const ms = (line: Line | undefined): number | undefined => line && Math.floor(line.at / 1000);

/** For one sandbox: where the id changes, mount it anew. */
export function useLog(id: string, runs: boolean): Log {
  const [lines, setLines] = useState<readonly Line[]>([]);
  const [loaded, setLoaded] = useState(false);
  const [begun, setBegun] = useState(false);
  const [loadingOlder, setLoadingOlder] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const kept = useRef({ lines, keys: new Set<string>(), busy: false, again: false, stuck: 0 });

  const add = useCallback((page: Parameters<typeof merge>[2]): number => {
    const now = kept.current;
    let next = merge(now.lines, now.keys, page);
    const fresh = next.length - now.lines.length;
    if (next.length > MOST + PAGE) {
      next = next.slice(-MOST);
      now.keys = new Set(next.map((line) => line.key));
      setBegun(false);
    }
    if (next !== now.lines) {
      now.lines = next;
      setLines(next);
    }
    return fresh;
  }, []);

  const newer = useCallback(async (): Promise<void> => {
    const now = kept.current;
    if (now.busy) {
      now.again = true;
      return;
    }
    now.busy = true;
    try {
      do {
        now.again = false;
        const cursor = ms(now.lines.at(-1));
        const first = cursor === undefined;
        const { logs } = await sandboxLogs(
          id,
          first ? { limit: PAGE, direction: 'backward' } : { cursor, limit: PAGE, direction: 'forward' },
        );
        const fresh = add(logs);
        if (first) {
          setLoaded(true);
          setBegun(logs.length < PAGE);
        } else if (logs.length >= PAGE && fresh > 0) {
          now.again = true;
        }
        setError(null);
      } while (now.again);
    } finally {
      now.busy = false;
    }
  }, [id, add]);

  const load = useCallback(async (): Promise<boolean> => {
    try {
      await newer();
      return true;
    } catch (cause) {
      setError(cause);
      return false;
    }
  }, [newer]);

  // While it runs, ask again and again: the log has no topic of its own.
  useEffect(() => {
    let wait = EVERY;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const tick = async () => {
      if (!document.hidden) wait = (await load()) ? EVERY : Math.min(LONGEST, wait * 2);
      if (!over && runs) timer = setTimeout(() => void tick(), wait);
    };
    void tick();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [load, runs]);
  useLive(`sandbox:${id}`, (message) => {
    if (message.type === 'event') void load();
  });

  const older = useCallback((): void => {
    const now = kept.current;
    const cursor = ms(now.lines[0]);
    if (cursor === undefined || loadingOlder || now.lines.length >= MOST) return;
    setLoadingOlder(true);
    sandboxLogs(id, { cursor: cursor - now.stuck, limit: PAGE, direction: 'backward' })
      .then(({ logs }) => {
        const fresh = add(logs);
        // A page that is full of lines of one millisecond says nothing new: step over it.
        now.stuck = fresh === 0 && logs.length >= PAGE ? now.stuck + 1 : 0;
        setBegun(logs.length < PAGE);
      })
      .catch(setError)
      .finally(() => setLoadingOlder(false));
  }, [id, add, loadingOlder]);

  return {
    lines,
    loaded,
    begun,
    full: lines.length >= MOST,
    loadingOlder,
    error,
    older,
    retry: () => void load(),
  };
}

/** All lines up to a number, oldest first, for a file. */
export async function wholeLog(id: string, most: number, signal: AbortSignal): Promise<readonly Line[]> {
  const keys = new Set<string>();
  let lines: readonly Line[] = [];
  let cursor: number | undefined;
  while (lines.length < most) {
    const { logs } = await sandboxLogs(id, { cursor, limit: PAGE, direction: 'backward' }, signal);
    const before = lines.length;
    lines = merge(lines, keys, logs);
    if (logs.length < PAGE) break;
    const oldest = ms(lines[0]) ?? 0;
    cursor = lines.length === before ? (cursor ?? oldest) - 1 : oldest;
  }
  return lines;
}
