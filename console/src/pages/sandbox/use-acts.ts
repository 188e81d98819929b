// What can be done with a sandbox at once, without a dialog.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { pauseSandbox, recoverSandbox, resumeSandbox, type SandboxFull } from '../../api';
import { toast } from '../../ui';
import { nameOf } from './name';
import { strings } from './strings';
import { isEnded } from './tab-query';

const LEAST = 3600;
const MOST = 24 * 3600;

export type Act = 'pause' | 'pauseDisk' | 'resume' | 'recover';

export interface Acts {
  /** What is under way. */
  busy: Act | null;
  run: (act: Act) => Promise<void>;
}

/** Seconds. A resume without one may leave it five minutes: a person wants what it had, or an hour. */
export function timeoutAfter(sandbox: SandboxFull, now = Date.now()): number {
  const left = Math.floor((Date.parse(sandbox.endAt) - now) / 1000);
  return left > LEAST ? Math.min(left, MOST) : LEAST;
}

export function useActs(sandbox: SandboxFull): Acts {
  const [busy, setBusy] = useState<Act | null>(null);
  const client = useQueryClient();
  const id = sandbox.sandboxID;
  const name = nameOf(sandbox);
  const words = strings.actions;
  const acts: Record<Act, [verb: string, done: string, () => Promise<unknown>]> = {
    pause: ['pause', words.paused(name), () => pauseSandbox(id)],
    pauseDisk: ['pause', words.paused(name), () => pauseSandbox(id, false)],
    resume: ['resume', words.resumed(name), () => resumeSandbox(id, { timeout: timeoutAfter(sandbox) })],
    recover: ['recover', words.recovered(name), () => recoverSandbox(id)],
  };
  async function run(act: Act): Promise<void> {
    if (busy) return;
    const [verb, done, call] = acts[act];
    setBusy(act);
    try {
      await call();
      toast.done(done);
    } catch (error) {
      if (!isEnded(error)) toast.failed(words.failed(verb, name), error);
    } finally {
      await client.invalidateQueries({ queryKey: ['sandbox', id] });
      setBusy(null);
    }
  }
  return { busy, run };
}
