// The list's filters: from the URL to what the API is asked, and what the console filters itself. Pure.

import type { SandboxFilter } from '../../api/sandboxes';
import type { SandboxRow } from '../../api/types';

export const FILTER_NAMES = ['state', 'template', 'label', 'q'] as const;

export const STATES = ['running', 'paused', 'archived', 'failed', 'ended'] as const;
export type ListState = (typeof STATES)[number];

export interface Given {
  state: string;
  template: string;
  labels: readonly string[];
  q: string;
}

/** `name=value`; null if it is not. The value may be empty, and may have more of the signs. */
export function labelOf(text: string): [string, string] | null {
  const at = text.indexOf('=');
  return at > 0 ? [text.slice(0, at).trim(), text.slice(at + 1).trim()] : null;
}

/** The API knows archived ones as paused. */
const ASKED: Record<string, string[]> = {
  running: ['running'],
  paused: ['paused'],
  archived: ['paused'],
  failed: ['failed'],
  ended: ['ended'],
};

export function filterOf(given: Given): SandboxFilter {
  const labels = given.labels.map(labelOf).filter((label) => label !== null);
  const state = ASKED[given.state];
  return {
    ...(state ? { state } : {}),
    ...(given.template ? { template: given.template } : {}),
    ...(labels.length > 0 ? { metadata: Object.fromEntries(labels) } : {}),
    ...(given.q ? { q: given.q } : {}),
  };
}

const isArchived = (row: SandboxRow) => ['archived', 'archiving', 'recycled'].includes(row.phase ?? '');

/** What the API's answer has that was not asked for. The same array if that is nothing. */
export function narrow(rows: SandboxRow[], state: string): SandboxRow[] {
  if (state !== 'paused' && state !== 'archived') return rows;
  return rows.filter((row) => isArchived(row) === (state === 'archived'));
}

/** Labels of the rows, the most frequent first: `name=value`, without `name` and those that only one row has. */
export function commonLabels(rows: readonly SandboxRow[], most = 10): string[] {
  const counts = new Map<string, number>();
  for (const row of rows.slice(0, 2000)) {
    for (const [name, value] of Object.entries(row.metadata ?? {})) {
      if (name === 'name' || name.length + value.length > 60) continue;
      const text = `${name}=${value}`;
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
  }
  return [...counts.entries()]
    .sort(([a, x], [b, y]) => y - x || a.localeCompare(b))
    .slice(0, most)
    .map(([text]) => text);
}

export interface Counts {
  running: number;
  asleep: number;
  failed: number;
  ended: number;
}

export function countRows(rows: readonly SandboxRow[]): Counts {
  const counts: Counts = { running: 0, asleep: 0, failed: 0, ended: 0 };
  for (const row of rows) {
    const phase = row.phase || row.state;
    if (phase === 'failed' || phase === 'ended') counts[phase] += 1;
    else if (row.state === 'running') counts.running += 1;
    else counts.asleep += 1;
  }
  return counts;
}
