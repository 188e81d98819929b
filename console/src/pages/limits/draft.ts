// Limits that are being edited: texts of fields, and what they change.
import type { QuotaState, TeamQuotas } from '../../api';

export type Draft = Record<string, string>;

const MOST = 1_000_000_000_000;

/** The least that a limit of a kind may be. */
const least = (kind: string) => (kind === 'turns' || kind === 'lifetime_seconds' ? 1 : 0);

export const draftOf = (quotas: TeamQuotas): Draft =>
  Object.fromEntries(quotas.quotas.map((one) => [one.kind, one.source === 'team' ? String(one.limit ?? '') : '']));

/** Whether a text is a limit, or empty for none. */
export function isLimit(kind: string, text: string): boolean {
  const trimmed = text.trim();
  return !trimmed || (/^\d{1,13}$/.test(trimmed) && Number(trimmed) >= least(kind) && Number(trimmed) <= MOST);
}

export const needsOne = (kind: string) => least(kind) > 0;

/** What differs: null where a limit is removed. */
export function changes(quotas: TeamQuotas, draft: Draft): Record<string, number | null> {
  const before = draftOf(quotas);
  const changed = quotas.quotas.filter((one) => (draft[one.kind] ?? '').trim() !== before[one.kind]);
  return Object.fromEntries(
    changed.map((one) => {
      const text = (draft[one.kind] ?? '').trim();
      return [one.kind, text ? Number(text) : null];
    }),
  );
}

/** Whether nothing more fits. */
export const isFull = (state: QuotaState) =>
  state.kind !== 'lifetime_seconds' && typeof state.limit === 'number' && state.used >= state.limit;
