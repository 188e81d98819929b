// The line under a terminal: what is wrong, and the button that mends it.
import { useState } from 'react';
import { resumeSandbox, type SandboxFull } from '../../../api';
import { queryClient } from '../../../query-client';
import type { TerminalState } from '../../../terminal/connection';
import { showHidden } from '../../../terminal/safe';
import { Button, StateDot, toast, useLate } from '../../../ui';
import { timeoutAfter } from '../use-acts';
import { strings } from './strings';
import styles from './terminal.module.css';

const words = (text: string) => showHidden(text.slice(0, 300)).replace(/[.\s]+$/, '');

export function Notice({
  state,
  note,
  sandbox,
  onRetry,
  onNew,
}: {
  state: TerminalState;
  note: string | null;
  sandbox: SandboxFull;
  onRetry: () => void;
  onNew: () => void;
}) {
  const again = (
    <Button size="sm" onPress={onNew}>
      {strings.again}
    </Button>
  );
  const retry = (
    <Button size="sm" look="quiet" onPress={onRetry}>
      {strings.tryNow}
    </Button>
  );
  return (
    <div role="status" className={styles.notices}>
      {state.kind === 'connecting' && <Connecting />}
      {state.kind === 'open' && note && <p className={styles.notice}>{note}</p>}
      {state.kind === 'lost' && (
        <Line state="waiting" action={retry}>
          {strings.reconnecting} {state.reason && words(state.reason)}
        </Line>
      )}
      {state.kind === 'paused' && (
        <Line state="paused" action={<Resume sandbox={sandbox} onDone={onRetry} />}>
          {state.reason ? strings.pausedNow(words(state.reason)) : strings.paused}
        </Line>
      )}
      {state.kind === 'ended' && (
        <Line state={state.exitCode ? 'failed' : 'stopped'} action={again}>
          {state.exitCode !== null
            ? strings.ended(state.exitCode)
            : state.reason
              ? strings.endedBy(words(state.reason))
              : strings.gone}
        </Line>
      )}
      {state.kind === 'refused' && (
        <Line state="failed" action={retry}>
          {strings.refused(words(state.reason))}
        </Line>
      )}
    </div>
  );
}

function Connecting() {
  return useLate(400) ? <Line state="creating">{strings.connecting}</Line> : null;
}

function Line({
  state,
  action,
  children,
}: {
  state: 'waiting' | 'paused' | 'failed' | 'stopped' | 'creating';
  action?: React.ReactNode;
  children: React.ReactNode;
}) {
  return (
    <div className={styles.notice} data-state={state}>
      <StateDot state={state} />
      <span className="grow">{children}</span>
      {action}
    </div>
  );
}

/** A person asks for it: resumes, then goes on. */
export function Resume({ sandbox, onDone, primary }: { sandbox: SandboxFull; onDone?: () => void; primary?: boolean }) {
  const [busy, setBusy] = useState(false);
  async function resume(): Promise<void> {
    setBusy(true);
    try {
      await resumeSandbox(sandbox.sandboxID, { timeout: timeoutAfter(sandbox) });
      await queryClient.invalidateQueries({ queryKey: ['sandbox', sandbox.sandboxID] });
      onDone?.();
    } catch (error) {
      toast.failed(strings.resumeFailed, error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <Button size={primary ? 'md' : 'sm'} look={primary ? 'primary' : 'plain'} isPending={busy} onPress={resume}>
      {strings.resume}
    </Button>
  );
}
