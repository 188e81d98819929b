// The list of chats, a page at a time. It is cached under ['chats', …], where the live socket patches it.
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef, useState } from 'react';
import { type ChatFilter, type ChatPage, listChats } from '../../api';

const PAGE = 30;

export function useChatPages(filter: ChatFilter) {
  const client = useQueryClient();
  const queryKey = ['chats', filter, 'pages'] as const;
  const query = useQuery({
    queryKey,
    // What was loaded stays loaded.
    queryFn: async ({ signal }): Promise<ChatPage> => {
      const wanted = client.getQueryData<ChatPage>(queryKey)?.chats.length ?? 0;
      let page = await listChats(filter, { limit: PAGE, signal });
      while (page.nextCursor && page.chats.length < wanted) {
        const next = await listChats(filter, { limit: 100, cursor: page.nextCursor, signal });
        page = { chats: [...page.chats, ...next.chats], nextCursor: next.nextCursor };
      }
      return page;
    },
    placeholderData: keepPreviousData,
  });
  const [moreError, setMoreError] = useState<unknown>(null);
  const [isLoadingMore, setLoadingMore] = useState(false);
  const busy = useRef(false);
  const key = JSON.stringify(queryKey);
  const loadMore = useCallback(async () => {
    const queryKey = JSON.parse(key) as [string, ChatFilter, string];
    const cursor = client.getQueryData<ChatPage>(queryKey)?.nextCursor;
    if (busy.current || !cursor) return;
    busy.current = true;
    setLoadingMore(true);
    setMoreError(null);
    try {
      const page = await listChats(queryKey[1], { cursor, limit: PAGE });
      client.setQueryData<ChatPage>(queryKey, (old) => {
        // It was fetched anew meanwhile, and goes on elsewhere.
        if (!old || old.nextCursor !== cursor) return old;
        const known = new Set(old.chats.map((chat) => chat.id));
        return {
          chats: [...old.chats, ...page.chats.filter((chat) => !known.has(chat.id))],
          nextCursor: page.nextCursor,
        };
      });
    } catch (error) {
      setMoreError(error);
    } finally {
      busy.current = false;
      setLoadingMore(false);
    }
  }, [client, key]);
  return { query, loadMore, isLoadingMore, moreError };
}
