// What is known about a sandbox, over its whole life: open while it can be used or recovered, gone after its end.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { isApiError, type SandboxFull, sandboxQuery, tombstoneQuery } from '../../api';
import { useLive } from '../../live';
import { freshen } from '../../live/fresh';

export type Known =
  | { kind: 'loading' }
  | { kind: 'open'; sandbox: SandboxFull; error: unknown }
  | { kind: 'gone'; sandbox: SandboxFull }
  | { kind: 'creating' }
  | { kind: 'unknown' }
  | { kind: 'error'; error: unknown };

const GONE = ['ending', 'ended'];

/** The server refused it, other than for the session: it is not there, has failed, or has ended. */
const isRefusal = (error: unknown): boolean =>
  isApiError(error) && error.code >= 400 && error.code < 500 && error.code !== 401 && error.code !== 429;

export function useSandbox(id: string): { known: Known; retry: () => void } {
  const client = useQueryClient();
  const live = useQuery(sandboxQuery(id));
  const refused = isRefusal(live.error);
  const stone = useQuery({ ...tombstoneQuery(id), enabled: refused });

  useLive(`sandbox:${id}`, (message) => {
    if (message.type !== 'event') return;
    const row = message.sandbox;
    if (row) client.setQueryData<SandboxFull>(['sandbox', id], (old) => (old ? { ...old, ...row } : old));
    freshen(client, ['sandbox', id]);
    if (message.event.type.endsWith('.snapshotted')) void client.invalidateQueries({ queryKey: ['snapshots'] });
  });

  const retry = () => void client.invalidateQueries({ queryKey: ['sandbox', id] });
  return { known: decide(), retry };

  function decide(): Known {
    if (!refused) {
      if (live.data) return { kind: 'open', sandbox: live.data, error: live.error };
      return live.error ? { kind: 'error', error: live.error } : { kind: 'loading' };
    }
    if (stone.data && !stone.error) {
      const kind = GONE.includes(stone.data.phase ?? '') ? 'gone' : 'open';
      return kind === 'gone' ? { kind, sandbox: stone.data } : { kind, sandbox: stone.data, error: null };
    }
    // Until the cause is known, what was there stays: nothing flickers and no tab shows an error.
    if (!stone.error) return live.data ? { kind: 'open', sandbox: live.data, error: null } : { kind: 'loading' };
    if (isApiError(stone.error) && stone.error.code === 409) return { kind: 'creating' };
    if (isRefusal(stone.error)) return { kind: 'unknown' };
    return { kind: 'error', error: stone.error };
  }
}
