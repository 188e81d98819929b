// The cache of what the server said. Nothing polls: the live socket says when to fetch again.
import { QueryClient } from '@tanstack/react-query';
import { isApiError } from './api/error';

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      gcTime: 5 * 60_000,
      refetchOnWindowFocus: true,
      // What the server refused stays refused; only silence and overload are worth another try.
      retry: (count, error) => count < 2 && isApiError(error) && (error.code === 0 || error.code >= 502),
      retryDelay: (count) => 400 * 2 ** count,
    },
    mutations: { retry: false },
  },
});
