// Events of a sandbox in pages, newest first.
import { type InfiniteData, useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { sandboxEvents, type Event as WireEvent } from '../../../api';
import { useLive } from '../../../live';

const SIZE = 50;

export function useEvents(id: string) {
  const client = useQueryClient();
  // Not below ['sandbox', id]: each live event would fetch all pages again.
  const queryKey = useMemo(() => ['sandbox events', id], [id]);
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) => sandboxEvents(id, { offset: pageParam, limit: SIZE }, signal),
    initialPageParam: 0,
    getNextPageParam: (last, pages) => (last.length < SIZE ? undefined : pages.reduce((n, page) => n + page.length, 0)),
    staleTime: 0,
  });
  useLive(`sandbox:${id}`, (message) => {
    if (message.type !== 'event') return;
    client.setQueryData<InfiniteData<WireEvent[], number>>(queryKey, (old) => {
      const [first = [], ...rest] = old?.pages ?? [];
      if (!old || old.pages.some((page) => page.some((event) => event.id === message.event.id))) return old;
      return { ...old, pages: [[message.event, ...first], ...rest] };
    });
  });
  const events = useMemo(() => unique(query.data?.pages.flat() ?? []), [query.data]);
  return { query, events };
}

/** Events that came meanwhile move the pages: one may be on two. */
function unique(events: WireEvent[]): WireEvent[] {
  const seen = new Set<string>();
  return events.filter((event) => !seen.has(event.id) && seen.add(event.id));
}
