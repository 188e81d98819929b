// What becomes of a sandbox if nobody does anything, in words.
import type { SandboxDetail } from '../../../api';
import { duration, relative } from '../../../format/time';

type Known = Pick<SandboxDetail, 'endAt' | 'lifecycle' | 'phase' | 'state'>;

/** Further away than this is as good as never. */
const FAR = 5 * 365 * 86_400_000;

/** "ends in 41 m, then pauses", or null where no timeout runs. */
export function timeoutWords(sandbox: Known, now: number): string | null {
  if ((sandbox.phase || sandbox.state) !== 'running') return null;
  const end = Date.parse(sandbox.endAt);
  if (Number.isNaN(end)) return null;
  if (end - now > FAR) return 'no timeout';
  const pauses = sandbox.lifecycle?.onTimeout === 'pause';
  if (end <= now) return pauses ? 'pauses now' : 'is killed now';
  return `${pauses ? 'pauses' : 'is killed'} ${relative(end, now)}`;
}

/** The rest of the policy, without what is as it is everywhere. */
export function policyWords(sandbox: Known): string[] {
  const { lifecycle } = sandbox;
  if (!lifecycle) return [];
  const words: string[] = [];
  if (lifecycle.idleTimeout) words.push(`pauses after ${duration(lifecycle.idleTimeout)} idle`);
  if (lifecycle.autoResume) words.push('a request resumes it');
  if (lifecycle.onFailure === 'replace') words.push('boots again after a failure');
  return words;
}
