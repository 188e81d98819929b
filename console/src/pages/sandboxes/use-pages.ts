// The list of sandboxes, a page at a time. It is cached under ['sandboxes', …], where the live socket patches its rows.
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef, useState } from 'react';
import { listSandboxes, type Page, type SandboxFilter, type SandboxRow } from '../../api';
import { pages } from '../../api/client';
import { useLiveState } from '../../live';

const DOWN_MS = 10_000;
/** A list of many pages is fetched again less often. */
const MANY_ROWS = 1000;

export function useSandboxPages(filter: SandboxFilter) {
  const client = useQueryClient();
  const isLive = useLiveState() === 'connected';
  const queryKey = ['sandboxes', filter, 'pages'];
  const query = useQuery({
    queryKey,
    queryFn: ({ signal }) => {
      const loaded = client.getQueryData<Page<SandboxRow>>(queryKey)?.items.length ?? 0;
      return pages((nextToken) => listSandboxes(filter, { nextToken, signal }), Math.max(1, loaded));
    },
    placeholderData: keepPreviousData,
    refetchOnWindowFocus: !isLive,
    refetchInterval: ({ state }) => {
      if (isLive) return false;
      return (state.data?.items.length ?? 0) > MANY_ROWS ? 6 * DOWN_MS : DOWN_MS;
    },
  });

  const [moreError, setMoreError] = useState<unknown>(null);
  const [isLoadingMore, setLoadingMore] = useState(false);
  const busy = useRef(false);
  const key = JSON.stringify(queryKey);
  const loadMore = useCallback(async () => {
    const queryKey = JSON.parse(key) as [string, SandboxFilter, string];
    const nextToken = client.getQueryData<Page<SandboxRow>>(queryKey)?.next;
    if (busy.current || !nextToken) return;
    busy.current = true;
    setLoadingMore(true);
    setMoreError(null);
    try {
      const page = await listSandboxes(queryKey[1], { nextToken });
      client.setQueryData<Page<SandboxRow>>(queryKey, (old) => {
        // It was fetched anew meanwhile, and goes on elsewhere.
        if (!old || old.next !== nextToken) return old;
        const known = new Set(old.items.map((row) => row.sandboxID));
        return { items: [...old.items, ...page.items.filter((row) => !known.has(row.sandboxID))], next: page.next };
      });
    } catch (error) {
      setMoreError(error);
    } finally {
      busy.current = false;
      setLoadingMore(false);
    }
  }, [client, key]);

  return { query, isLive, loadMore, isLoadingMore, moreError };
}
