// Files of a sandbox: a tree, and what is open.
import { useState } from 'react';
import { resumeSandbox, type SandboxFull } from '../../../api';
import { queryClient } from '../../../query-client';
import { Button, toast } from '../../../ui';
import { timeoutAfter } from '../use-acts';
import { Browser } from './browser';
import styles from './files.module.css';
import { plain } from './names';
import { strings } from './strings';

export interface FilesTabProps {
  sandbox: SandboxFull;
  /** In a pane: the tree or the open file, without a frame. */
  compact?: boolean;
}

export default function FilesTab({ sandbox, compact }: FilesTabProps) {
  const phase = sandbox.phase || sandbox.state;
  const [begun, setBegun] = useState(false);
  const asleep = phase === 'paused' || phase === 'archived' || phase === 'pausing' || phase === 'archiving';
  const dead = phase === 'ended' || phase === 'ending' || phase === 'recycled' || phase === 'failed';
  // What was open stays when the sandbox is paused: there may be edits. It is not watched, as that would resume it.
  if (begun || (!asleep && !dead)) {
    return (
      <Browser
        key={sandbox.sandboxID}
        sandbox={sandbox}
        watched={!asleep && !dead}
        compact={compact}
        onBegin={() => setBegun(true)}
        notice={asleep ? <Asleep sandbox={sandbox} small /> : dead ? <Dead sandbox={sandbox} small /> : null}
      />
    );
  }
  return <div className={styles.centered}>{dead ? <Dead sandbox={sandbox} /> : <Asleep sandbox={sandbox} />}</div>;
}

function Asleep({ sandbox, small }: { sandbox: SandboxFull; small?: boolean }) {
  const [busy, setBusy] = useState(false);
  async function resume(): Promise<void> {
    setBusy(true);
    try {
      await resumeSandbox(sandbox.sandboxID, { timeout: timeoutAfter(sandbox) });
      await queryClient.invalidateQueries({ queryKey: ['sandbox', sandbox.sandboxID] });
    } catch (error) {
      toast.failed(strings.resumeFailed, error);
    } finally {
      setBusy(false);
    }
  }
  const button = (
    <Button size={small ? 'sm' : 'md'} look={small ? 'plain' : 'primary'} onPress={resume} isPending={busy}>
      {strings.resume}
    </Button>
  );
  if (small) {
    return (
      <div className={`banner ${styles.banner}`} data-state="paused" role="status">
        <span className="grow">
          {strings.pausedTitle}. {strings.pausedText}
        </span>
        {button}
      </div>
    );
  }
  return (
    <>
      <h2>{strings.pausedTitle}</h2>
      <p className="muted">{strings.pausedText}</p>
      {button}
    </>
  );
}

function Dead({ sandbox, small }: { sandbox: SandboxFull; small?: boolean }) {
  const reason = sandbox.reason ? plain(sandbox.reason, 300) : null;
  if (small) {
    return (
      <div className={`banner ${styles.banner}`} data-state="failed" role="status">
        {strings.endedTitle}. {reason}
      </div>
    );
  }
  return (
    <>
      <h2>{strings.endedTitle}</h2>
      {reason && <p className="muted">{reason}</p>}
      <p className="muted">{strings.endedText}</p>
    </>
  );
}
