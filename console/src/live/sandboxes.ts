// Keeps cached lists of sandboxes as the live socket tells it, without fetching them again: a list may have 10,000 rows.
import type { QueryClient } from '@tanstack/react-query';
import type { SandboxFilter } from '../api/sandboxes';
import type { SandboxFull, SandboxRow } from '../api/types';
import { freshen } from './fresh';

export interface Change {
  id: string;
  /** null: it has ended. */
  row: SandboxRow | null;
}

/** The state by which lists filter. */
function listState(row: SandboxRow): string {
  const phase = row.phase || row.state;
  return phase === 'failed' || phase === 'ended' ? phase : row.state;
}

export function matches(filter: SandboxFilter, row: SandboxRow): boolean {
  if (!(filter.state ?? ['running', 'paused', 'failed']).includes(listState(row))) return false;
  if (filter.template && filter.template !== row.templateID && filter.template !== row.alias) return false;
  const labels = row.metadata ?? {};
  if (Object.entries(filter.metadata ?? {}).some(([name, value]) => labels[name] !== value)) return false;
  if (!filter.q) return true;
  const q = filter.q.toLowerCase();
  return [row.sandboxID, row.alias ?? '', ...Object.values(labels)].some((text) => text.toLowerCase().includes(q));
}

/** A list after changes; the same list if none concerns it. */
export function patch(rows: SandboxRow[], filter: SandboxFilter, changes: readonly Change[]): SandboxRow[] {
  const latest = new Map(changes.map((change) => [change.id, change.row]));
  let changed = false;
  const next = rows.flatMap((row) => {
    const update = latest.get(row.sandboxID);
    if (update === undefined) return row;
    latest.delete(row.sandboxID);
    changed = true;
    return update && matches(filter, update) ? { ...row, ...update } : [];
  });
  const added = [...latest.values()].filter((row): row is SandboxRow => row !== null && matches(filter, row));
  if (added.length > 0) return filter.order === 'asc' ? [...next, ...added] : [...added.reverse(), ...next];
  return changed ? next : rows;
}

export function applyChanges(client: QueryClient, changes: readonly Change[]): void {
  for (const query of client.getQueryCache().findAll({ queryKey: ['sandboxes'] })) {
    const apply = () => {
      const data = query.state.data as { items: SandboxRow[] } | undefined;
      if (!data) return;
      const items = patch(data.items, (query.queryKey[1] ?? {}) as SandboxFilter, changes);
      if (items !== data.items) client.setQueryData(query.queryKey, { ...data, items });
    };
    apply();
    // A list that is on its way may have been written before these changes.
    if (query.state.fetchStatus === 'fetching') void query.promise?.then(apply, () => {});
  }
  for (const { id, row } of changes) {
    if (row) client.setQueryData<SandboxFull>(['sandbox', id], (old) => (old ? { ...old, ...row } : old));
    freshen(client, ['sandbox', id]);
  }
}
