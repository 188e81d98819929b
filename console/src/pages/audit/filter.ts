// The page's filters: from the URL to what the API is asked. Pure.
import type { AuditFilter } from '../../api/audit';

export const FILTER_NAMES = ['action', 'actor', 'target', 'result', 'since'] as const;

export const SINCE: Record<string, number> = { hour: 3_600, day: 86_400, week: 604_800, month: 2_592_000 };

/** Times are whole minutes, so that a page that is drawn again asks for the same. */
export function filterOf(get: (name: string) => string, now: number): AuditFilter {
  const filter: AuditFilter = {};
  for (const name of ['action', 'actor', 'target', 'result'] as const) {
    const value = get(name).slice(0, 128);
    if (value) filter[name] = value;
  }
  const seconds = SINCE[get('since')];
  if (seconds) filter.from = new Date(Math.floor(now / 60_000) * 60_000 - seconds * 1000).toISOString();
  return filter;
}
