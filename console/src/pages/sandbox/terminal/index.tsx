// Terminals of a sandbox. Shells outlive this page: on opening it goes back to those of this browser tab, or offers those
// that run.
import { useQuery } from '@tanstack/react-query';
import { SquareTerminal } from 'lucide-react';
import { useState } from 'react';
import { type SandboxFull, type Terminal, terminalsQuery } from '../../../api';
import { relative } from '../../../format/time';
import { showHidden } from '../../../terminal/safe';
import { loadTerminals } from '../../../terminal/stored';
import { Button, ErrorBanner, SkeletonLines } from '../../../ui';
import { Resume } from './notice';
import { strings } from './strings';
import styles from './terminal.module.css';
import { type First, Workspace } from './workspace';

const ENDED = ['ended', 'ending', 'recycled'];

export default function TerminalTab({ sandbox }: { sandbox: SandboxFull }) {
  const phase = sandbox.phase || sandbox.state;
  const [begun, setBegun] = useState(false);
  const dead = ENDED.includes(phase) || phase === 'failed';
  // Once it is used it stays, so that the last output can be read when the sandbox is paused or gone.
  if (begun || (!dead && phase !== 'paused' && phase !== 'archived')) {
    return <Running key={sandbox.sandboxID} sandbox={sandbox} onBegin={() => setBegun(true)} />;
  }
  return (
    <Frame>
      <Empty
        title={dead ? (phase === 'failed' ? strings.failedTitle : strings.endedTitle) : strings.pausedTitle}
        text={dead ? (phase === 'failed' ? strings.failedText : strings.endedText) : strings.pausedText}
        reason={sandbox.reason}
      >
        {!dead && <Resume sandbox={sandbox} primary />}
      </Empty>
    </Frame>
  );
}

function Running({ sandbox, onBegin }: { sandbox: SandboxFull; onBegin: () => void }) {
  const id = sandbox.sandboxID;
  const [cwd] = useState(takeDirectory);
  const [chosen, choose] = useState<First[] | null>(() => (cwd === null ? null : [{ pid: null, cwd }]));
  // The list is asked for once: after that this page knows its terminals itself.
  const query = useQuery({
    ...terminalsQuery(id),
    staleTime: 0,
    refetchOnWindowFocus: false,
    enabled: chosen === null,
  });
  const [stored] = useState(() => loadTerminals(id));
  const begin = (first: First[]) => {
    choose(first);
    onBegin();
  };
  const list = query.isFetchedAfterMount ? query.data : undefined;
  const known = list && stored.pids.filter((pid) => list.some((one) => one.pid === pid));
  const first = chosen ?? (known && known.length > 0 ? known.map((pid) => ({ pid })) : list?.length === 0 ? NEW : null);
  if (first) return <Workspace sandbox={sandbox} first={first} active={stored.active} onBegin={onBegin} />;
  return (
    <Frame>
      {query.error ? (
        <div className={styles.center}>
          <ErrorBanner error={query.error} onRetry={() => void query.refetch()} />
          <Button onPress={() => begin(NEW)}>{strings.newTerminal}</Button>
        </div>
      ) : list ? (
        <Chooser terminals={list} onChoose={(pid) => begin([{ pid }])} />
      ) : (
        <div className={styles.loading}>
          <SkeletonLines lines={4} />
        </div>
      )}
    </Frame>
  );
}

const NEW: First[] = [{ pid: null }];

/** `?cwd=` asks for a new terminal in a directory, once. */
function takeDirectory(): string | null {
  const address = new URL(location.href);
  const cwd = address.searchParams.get('cwd');
  if (cwd === null) return null;
  address.searchParams.delete('cwd');
  history.replaceState(history.state, '', address);
  return cwd.slice(0, 4096);
}

function Chooser({ terminals, onChoose }: { terminals: Terminal[]; onChoose: (pid: number | null) => void }) {
  return (
    <Empty title={strings.chooseTitle(terminals.length)} text={strings.chooseText}>
      <ul className={styles.running}>
        {terminals.map((one) => (
          <li key={one.pid} className="row">
            <SquareTerminal className="lucide s" />
            <code className="cut grow">{showHidden(one.command.slice(0, 120))}</code>
            <span className="meta num">
              {one.pid}
              {one.startedAt && ` · ${strings.startedAt(relative(one.startedAt))}`}
            </span>
            <Button size="sm" aria-label={`${strings.connect} ${one.pid}`} onPress={() => onChoose(one.pid)}>
              {strings.connect}
            </Button>
          </li>
        ))}
      </ul>
      <Button look="primary" onPress={() => onChoose(null)}>
        {strings.newTerminal}
      </Button>
    </Empty>
  );
}

function Frame({ children }: { children: React.ReactNode }) {
  return (
    <section className={`term ${styles.root}`} aria-label={strings.region}>
      {children}
    </section>
  );
}

function Empty({
  title,
  text,
  reason,
  children,
}: {
  title: string;
  text: string;
  reason?: string | null;
  children?: React.ReactNode;
}) {
  return (
    <div className={styles.center}>
      <h2>{title}</h2>
      {reason && <p className="muted">{showHidden(reason.slice(0, 300))}</p>}
      <p className="muted">{text}</p>
      {children}
    </div>
  );
}
