// What a sandbox is called and what state it is in, for people.
import type { ListedSandbox } from '../wire';
import { duration, relative } from './time';

/** The states that have a shape and a colour. */
export type State =
  | 'creating'
  | 'running'
  | 'waiting'
  | 'paused'
  | 'suspended'
  | 'archived'
  | 'stopped'
  | 'failed'
  | 'done';

export interface Status {
  state: State;
  /** "Running", "Failed: out of memory". */
  word: string;
  /** "3 m", "2 h ago". */
  detail: string | null;
}

const PHASES: Record<string, [State, string]> = {
  creating: ['creating', 'Creating'],
  starting: ['creating', 'Starting'],
  running: ['running', 'Running'],
  pausing: ['paused', 'Pausing'],
  paused: ['paused', 'Paused'],
  resuming: ['creating', 'Resuming'],
  archiving: ['archived', 'Archiving'],
  archived: ['archived', 'Archived'],
  recycled: ['archived', 'Recycled'],
  failed: ['failed', 'Failed'],
  ended: ['stopped', 'Ended'],
};

type Known = Pick<ListedSandbox, 'sandboxID' | 'state' | 'startedAt'> &
  Partial<Pick<ListedSandbox, 'phase' | 'reason' | 'since' | 'metadata' | 'alias' | 'templateID'>>;

/** State, word and what follows it. `reason` is not in the detail, except of failed ones, where it is in the word. */
export function statusOf(sandbox: Known, now: number = Date.now()): Status {
  const phase = sandbox.phase || sandbox.state;
  const [state, word] = PHASES[phase] ?? ['stopped', phase];
  const since = sandbox.since ?? sandbox.startedAt;
  if (state === 'failed') {
    const reason = sandbox.reason?.replace(/^the sandbox /, '');
    return { state, word: reason ? `Failed: ${reason}` : 'Failed', detail: relative(since, now) };
  }
  if (state === 'running')
    return { state, word, detail: duration(Math.max(1, Math.floor((now - Date.parse(since)) / 1000))) };
  if (state === 'creating') return { state, word, detail: null };
  return { state, word, detail: relative(since, now) };
}

/** Whether a row is asleep, and so shown in a quieter colour. */
export const isAsleep = (state: State): boolean => state === 'paused' || state === 'archived' || state === 'stopped';

/** Its `name` label, or else its id. */
export function sandboxName(sandbox: Pick<Known, 'sandboxID' | 'metadata'>): string {
  const name = sandbox.metadata?.name?.trim();
  return name ? name.slice(0, 80) : shortId(sandbox.sandboxID);
}

/** "i4xq…m2c9". */
export const shortId = (id: string): string => (id.length <= 12 ? id : `${id.slice(0, 4)}…${id.slice(-4)}`);

/** The template's alias, or else its id. */
export const templateName = (sandbox: { alias?: string | null; templateID: string }): string =>
  sandbox.alias || sandbox.templateID;
