// What a row says about a sandbox, beyond its state. Pure.
import type { SandboxRow } from '../../api/types';
import { plain, plainName } from '../../format/plain';
import { templateName } from '../../format/sandbox';
import { short } from '../../format/time';
import { phaseOf } from './acts';

/** Hours for which the server keeps a failed sandbox's disk, by default. */
const FAILED_HOURS = 24;

/** Its `name` label, or else its template's name. */
export function nameOf(row: SandboxRow): string {
  return plainName(row.metadata?.name ?? '', 80) || plainName(templateName(row), 80);
}

/** Why, without what the state says already: "idle", "by an API key". */
export function reasonOf(row: Pick<SandboxRow, 'reason'>): string {
  return plainName(row.reason ?? '', 200)
    .replace(/^the sandbox /i, '')
    .replace(/^was paused by request of /, 'by ')
    .replace(/^was idle and was paused$/, 'idle')
    .replace(/^was (killed|ended) /, '$1 ')
    .replace(/by request of API key/, 'by API key')
    .replace(/API key [0-9a-f-]{36}/, 'an API key');
}

/** For how long the disk of a failed one stays: "23 h"; null if that is over. */
export function keptFor(row: Pick<SandboxRow, 'since' | 'startedAt'>, now: number): string | null {
  const until = Date.parse(row.since ?? row.startedAt) + FAILED_HOURS * 3_600_000;
  return until > now ? short((until - now) / 1000) : null;
}

/** When it ends: "41 m", "never"; null where that means nothing now. */
export function endsOf(row: SandboxRow, now: number): string | null {
  const phase = phaseOf(row);
  if (phase !== 'running' && phase !== 'resuming' && phase !== 'pausing') return null;
  const left = (Date.parse(row.endAt) - now) / 1000;
  return Number.isFinite(left) ? short(left) : null;
}

const LINES = 20;

/** The last lines, safe to show. */
export const linesOf = (row: SandboxRow): string[] =>
  (row.lastLines ?? []).slice(-LINES).map((line) => plain(line, 1000).replaceAll('\n', ' '));

/** Where the same can be created again. Labels and sizes go with it; environment and secrets are not known here. */
export function againPath(row: SandboxRow): string {
  const query = new URLSearchParams({ step: 'config', template: templateName(row) });
  query.set('cpu', String(row.cpuCount));
  query.set('memory', String(row.memoryMB));
  query.set('disk', String(row.diskSizeMB));
  for (const [name, value] of Object.entries(row.metadata ?? {}).slice(0, 32))
    query.append('label', `${name}=${value}`);
  return `/create?${query}`;
}
