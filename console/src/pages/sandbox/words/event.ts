// Events of a sandbox in words: what happened, why, and who wanted it.
import type { Event as WireEvent } from '../../../api';
import { plainName } from '../../../format/plain';
import type { State } from '../../../format/sandbox';
import { mib, plural } from '../../../format/size';
import { utc } from '../../../format/time';

export interface EventWords {
  state: State;
  /** "Paused". */
  what: string;
  /** "it was idle". */
  why: string | null;
  /** Id of the key or the person. */
  by: string | null;
}

type Data = Record<string, unknown>;

const PREFIX = 'sandbox.lifecycle.';
const SIMPLE: Record<string, [State, string]> = {
  requested: ['creating', 'Requested'],
  created: ['running', 'Created'],
  pausing: ['paused', 'Pausing'],
  paused: ['paused', 'Paused'],
  resuming: ['creating', 'Resuming'],
  resumed: ['running', 'Resumed'],
  unchanged: ['waiting', 'Stays as it was'],
  memory_lost: ['waiting', 'Memory lost'],
  snapshotted: ['done', 'Snapshot taken'],
  archiving: ['archived', 'Archiving'],
  archived: ['archived', 'Archived'],
  restored: ['done', 'Restored from cold storage'],
  failed: ['failed', 'Failed'],
  ending: ['stopped', 'Ending'],
  killed: ['stopped', 'Ended'],
};

const text = (value: unknown): string | null => (typeof value === 'string' && value ? plainName(value, 400) : null);
const object = (value: unknown): Data => (typeof value === 'object' && value !== null ? (value as Data) : {});

/** The kind without the prefix that most have. */
export const kindOf = (type: string): string => (type.startsWith(PREFIX) ? type.slice(PREFIX.length) : type);

/** Steps on the way to something that has its own event. */
export const isStep = (type: string): boolean =>
  ['requested', 'pausing', 'resuming', 'archiving', 'ending'].includes(kindOf(type));

export function eventWords(event: Pick<WireEvent, 'type' | 'eventData'>): EventWords {
  const data = object(event.eventData);
  const cause = object(data.cause);
  const kind = kindOf(event.type);
  const by = text(data.by) ?? text(cause.by);
  if (kind === 'updated') return { ...updated(data), by };
  if (event.type === 'sandbox.network.denied') {
    const count = typeof data.denied === 'number' ? data.denied : 0;
    return { state: 'waiting', what: 'Connections denied', why: count ? plural(count, 'attempt') : null, by };
  }
  const [state, what] = SIMPLE[kind] ?? (['stopped', plainName(kind, 60)] as [State, string]);
  if (kind === 'snapshotted') return { state, what, why: text(data.name) ?? text(data.snapshotID), by };
  if (kind === 'memory_lost') return { state, what, why: 'it will boot from its disk', by };
  if (kind === 'killed' && cause.kind === 'killed') return { state, what: 'Killed', why: null, by };
  if (kind === 'killed' && cause.kind === 'expired') return { state, what, why: 'it reached its timeout', by };
  const failure = kind === 'killed' && !['killed', 'expired'].includes(String(cause.kind ?? 'killed'));
  return { state: failure ? 'failed' : state, what, why: cause.kind === 'asked' ? kept(data) : because(data, by), by };
}

function updated(data: Data): Omit<EventWords, 'by'> {
  switch (data.reason) {
    case 'timeout': {
      const end = text(data.endAt);
      return { state: 'done', what: 'Timeout set', why: end && `ends ${utc(end)}` };
    }
    case 'resize': {
      const size = [
        typeof data.cpuCount === 'number' ? `${data.cpuCount} vCPU` : '',
        typeof data.memoryMB === 'number' ? mib(data.memoryMB) : '',
        typeof data.diskSizeMB === 'number' ? `${mib(data.diskSizeMB)} disk` : '',
      ].filter(Boolean);
      return { state: 'done', what: 'Resized', why: size.length > 0 ? `to ${size.join(', ')}` : null };
    }
    case 'network':
      return { state: 'done', what: 'Network rules changed', why: null };
    case 'oom': {
      const kills = typeof data.oomKills === 'number' ? data.oomKills : 0;
      return {
        state: 'failed',
        what: 'Out of memory',
        why: kills ? `${plural(kills, 'process', 'processes')} killed` : null,
      };
    }
    case 'not_ready':
      return { state: 'failed', what: 'Not ready', why: text(data.message) };
    default:
      return { state: 'done', what: 'Changed', why: text(data.reason) };
  }
}

function kept(data: Data): string | null {
  if (data.pauseMode === 'full') return 'with its memory';
  if (data.pauseMode === 'filesystem') return 'with its disk only';
  return null;
}

/** Reasons of the server complete "the sandbox …". Who it was is shown apart. */
function because(data: Data, by: string | null): string | null {
  const reason = text(data.reason);
  if (!reason) return null;
  const told = by ? reason.replace(/ by request of .*$/, '') : reason;
  return `it ${told.replace(/ and was (paused|killed)$/, '')}`;
}

/** The cause of an end as a sentence without its subject: "was killed by key ci". */
export function reasonWords(reason: string | null | undefined, name: (id: string) => string): string | null {
  if (!reason) return null;
  const shown = plainName(reason, 600).replace(/^the sandbox /, '');
  return shown
    .replace(/(?:request of )?API key (\S+)/, (_, id: string) => name(id))
    .replace(/\b(usr_\w+)\b/, (id) => name(id));
}
