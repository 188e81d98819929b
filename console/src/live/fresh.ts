// Fetching again what may have changed.
import type { QueryClient, QueryKey } from '@tanstack/react-query';

/**
 * Fetches again all queries whose keys begin with this one. An answer that is on its way may have been written before the
 * change, and asking for a query that is fetched for the first time does nothing: then it is fetched once more afterwards.
 */
export function freshen(client: QueryClient, queryKey: QueryKey): void {
  for (const query of client.getQueryCache().findAll({ queryKey })) {
    if (query.state.fetchStatus === 'idle') continue;
    const again = () => void client.invalidateQueries({ queryKey: query.queryKey, exact: true });
    void query.promise?.then(again, again);
  }
  void client.invalidateQueries({ queryKey, predicate: (query) => query.state.fetchStatus === 'idle' });
}
