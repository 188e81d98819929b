// Errors that a framed page told, newest first. The same one again is counted. Pure.
import type { PageError } from '../../bridge/messages';

export interface CountedError extends PageError {
  key: number;
  count: number;
  /** When it was told last. */
  at: number;
}

export interface PageErrors {
  list: readonly CountedError[];
  /** All that were told, also those that are no longer in the list. */
  total: number;
}

export const NO_ERRORS: PageErrors = { list: [], total: 0 };
const MOST = 100;

export function addError({ list, total }: PageErrors, error: PageError, at: number): PageErrors {
  const same = (one: PageError) => one.kind === error.kind && one.text === error.text && one.source === error.source;
  const known = list.find(same);
  const { kind, text, source } = error;
  const first = { kind, text, source, at, key: known?.key ?? total, count: (known?.count ?? 0) + 1 };
  return { list: [first, ...list.filter((one) => one !== known)].slice(0, MOST), total: total + 1 };
}
