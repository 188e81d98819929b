// What can be done with a sandbox in which phase. Pure.
import type { SandboxRow } from '../../api/types';

export type Act = 'pause' | 'resume' | 'snapshot' | 'fork' | 'archive' | 'recover' | 'kill';

export const ACTS: readonly Act[] = ['pause', 'resume', 'snapshot', 'fork', 'archive', 'recover', 'kill'];

export const phaseOf = (row: SandboxRow): string => row.phase || row.state;

const BY_PHASE: Record<string, readonly Act[]> = {
  running: ['pause', 'snapshot', 'fork', 'archive', 'kill'],
  paused: ['resume', 'snapshot', 'fork', 'archive', 'kill'],
  archived: ['resume', 'kill'],
  recycled: ['resume', 'kill'],
  failed: ['recover', 'kill'],
  ended: [],
};

/** In the order of the menu. In the middle of a change only `kill` makes sense. */
export function actsOf(row: SandboxRow): readonly Act[] {
  return BY_PHASE[phaseOf(row)] ?? ['kill'];
}

export const can = (row: SandboxRow, act: Act): boolean => actsOf(row).includes(act);

/** The acts that some of the rows can take, each with those rows. */
export function actsOfAll(rows: readonly SandboxRow[]): Map<Act, SandboxRow[]> {
  const all = new Map<Act, SandboxRow[]>();
  for (const act of ACTS) {
    const able = rows.filter((row) => can(row, act));
    if (able.length > 0) all.set(act, able);
  }
  return all;
}

/** Seconds that a fork or a resumed sandbox runs: as long as it still would, and never less than a person needs. */
export function timeoutFor(row: Pick<SandboxRow, 'endAt'>, now: number): number {
  const left = Math.floor((Date.parse(row.endAt) - now) / 1000);
  return Number.isFinite(left) ? Math.max(3600, left) : 3600;
}
