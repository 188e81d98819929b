// Follows a build: by the live socket; where that is not there, by asking every two seconds.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useRef, useState } from 'react';
import { type BuildReason, buildQuery, getBuild } from '../../api';
import { useLive, useLiveState } from '../../live';
import { freshen } from '../../live/fresh';
import { isOpen } from '../templates/state';
import { append, EMPTY, type Log, offsetOf } from './log';

const POLL_MS = 2_000;
/** How long the socket may be silent about a build before it is asked for. */
const PATIENCE_MS = 1_500;

export interface Followed {
  log: Log;
  /** `waiting`, `building`, `ready` or `error`; null while nothing is known. */
  status: string | null;
  reason: BuildReason | null;
  error: unknown;
  polling: boolean;
  retry: () => void;
}

export function useBuild(templateID: string, buildID: string): Followed {
  const client = useQueryClient();
  const query = useQuery(buildQuery(templateID, buildID));
  const [log, setLog] = useState<Log>(EMPTY);
  const current = useRef<Log>(EMPTY);
  const [refused, setRefused] = useState(false);
  const [heard, setHeard] = useState(false);
  const [late, setLate] = useState(false);
  const live = useLiveState();
  const status = query.data?.status ?? null;

  function add(start: number, lines: Parameters<typeof append>[2]): void {
    current.current = append(current.current, start, lines);
    setLog(current.current);
  }
  function changed(): void {
    freshen(client, ['build', templateID, buildID]);
    freshen(client, ['template']);
    freshen(client, ['templates']);
  }

  useLive(
    `build:${templateID}/${buildID}`,
    (message) => {
      if (message.type === 'error') return setRefused(true);
      setHeard(true);
      if (message.type === 'log') add(message.next - message.lines.length, message.lines);
      if (message.type === 'status' && message.status !== status) changed();
    },
    () => offsetOf(current.current),
  );

  useEffect(() => {
    const timer = setTimeout(() => setLate(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, []);

  const polling = refused || (late && (!heard || live !== 'connected'));
  // All pages that there are, then again while the build goes on.
  const read = useEffectEvent(async (signal: AbortSignal): Promise<boolean> => {
    for (;;) {
      const start = offsetOf(current.current);
      const info = await getBuild(templateID, buildID, { logsOffset: start }, signal);
      add(start, info.logEntries);
      if (info.logEntries.length > 0) continue;
      if (info.status !== status) changed();
      return isOpen(info.status);
    }
  });
  useEffect(() => {
    if (!polling) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    async function turn(): Promise<void> {
      // A failed try is as good as none: the page shows the error of its own query.
      const more = await read(stop.signal).catch(() => true);
      if (more && !stop.signal.aborted) timer = setTimeout(turn, POLL_MS);
    }
    void turn();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [polling]);

  return {
    log,
    status,
    reason: query.data?.reason ?? null,
    error: query.error,
    polling: polling && status !== null && isOpen(status),
    retry: () => void query.refetch(),
  };
}

/** The whole log as text, from its first line. */
export async function wholeLog(templateID: string, buildID: string): Promise<string[]> {
  const parts: string[] = [];
  for (let offset = 0; ; ) {
    const { logEntries } = await getBuild(templateID, buildID, { logsOffset: offset });
    if (logEntries.length === 0) return parts;
    offset += logEntries.length;
    for (const line of logEntries) parts.push(`${line.timestamp} ${line.step ?? '-'} ${line.message}\n`);
  }
}
