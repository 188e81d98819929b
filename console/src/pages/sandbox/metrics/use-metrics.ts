// Samples of a range, with new ones appended as they come.
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { type SandboxMetric, sandboxMetrics } from '../../../api';
import { append } from './series';

interface Samples {
  items: readonly SandboxMetric[];
  /** When all of the range was fetched, ms. */
  whole: number;
  /** The range, seconds since 1970. */
  from: number;
  to: number;
}

/** After this long all is fetched again: old samples become peaks of minutes. */
const WHOLE_EVERY = 10 * 60_000;

export function useMetrics(id: string, minutes: number, runs: boolean) {
  const client = useQueryClient();
  const queryKey = ['metrics', id, minutes, 'live'];
  return useQuery<Samples>({
    queryKey,
    queryFn: async ({ signal }) => {
      const now = Date.now();
      const to = Math.ceil(now / 1000);
      const from = to - minutes * 60;
      const old = client.getQueryData<Samples>(queryKey);
      const last = old?.items.at(-1);
      if (old && last && now - old.whole < WHOLE_EVERY) {
        const more = await sandboxMetrics(id, { start: last.timestampUnix }, signal);
        return { items: append(old.items, more, from), whole: old.whole, from, to };
      }
      return { items: await sandboxMetrics(id, { start: from }, signal), whole: now, from, to };
    },
    refetchInterval: runs ? (minutes <= 60 ? 5000 : minutes <= 360 ? 15_000 : 60_000) : false,
    placeholderData: keepPreviousData,
    structuralSharing: false,
    staleTime: 4000,
  });
}
