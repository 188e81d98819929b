// What stands in the cells of a row. Buttons are plain ones: rows come and go while one scrolls.
import { Check, ChevronDown, ChevronRight, Copy, Ellipsis, KeyRound, Server, User } from 'lucide-react';
import { type ReactNode, useContext, useEffect, useRef, useState } from 'react';
import type { SandboxRow } from '../../api';
import { plainName } from '../../format/plain';
import { shortId, statusOf, templateName } from '../../format/sandbox';
import { mib } from '../../format/size';
import { utc } from '../../format/time';
import { copyText, Link, StateDot, useNow } from '../../ui';
import { can, phaseOf } from './acts';
import { BusyRows, OpenRow, useRowActs } from './row-context';
import styles from './sandboxes.module.css';
import { strings } from './strings';
import { againPath, endsOf, keptFor, linesOf, nameOf, reasonOf } from './words';

function CopyId({ id }: { id: string }) {
  const [done, setDone] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const label = done ? strings.copied : strings.copyId;
  return (
    <span className="id" title={id}>
      {shortId(id)}
      <button
        type="button"
        aria-label={label}
        title={label}
        onClick={async () => {
          await copyText(id);
          setDone(true);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => setDone(false), 1500);
        }}
      >
        {done ? <Check className="lucide copied" /> : <Copy />}
      </button>
    </span>
  );
}

export function Name({ row }: { row: SandboxRow }) {
  const name = nameOf(row);
  return (
    <span className={`row ${styles.name}`}>
      <Link href={`/sandboxes/${row.sandboxID}`} className="name" title={name}>
        {name}
      </Link>
      <CopyId id={row.sandboxID} />
    </span>
  );
}

function LinesButton({ row }: { row: SandboxRow }) {
  const open = useContext(OpenRow) === row.sandboxID;
  const { toggleLines } = useRowActs();
  if (!row.lastLines?.length) return null;
  return (
    <button
      type="button"
      className={`btn quiet sm ${styles.lines}`}
      aria-expanded={open}
      onClick={() => toggleLines(row)}
    >
      {open ? <ChevronDown /> : <ChevronRight />}
      {strings.lastLines}
    </button>
  );
}

/** State, then why and what follows from it. */
export function State({ row }: { row: SandboxRow }) {
  const now = useNow();
  const busy = useContext(BusyRows).get(row.sandboxID);
  if (busy) {
    return (
      <span className="state" data-state="creating">
        <StateDot state="creating" />
        <b>{strings.verbs[busy].doing.replace('Taking snapshots of', 'Taking a snapshot')}</b>
      </span>
    );
  }
  const status = statusOf(row, now);
  const phase = phaseOf(row);
  if (phase === 'failed') {
    const reason = reasonOf(row);
    const kept = keptFor(row, now);
    return (
      <span className={`state ${styles.state}`} data-state="failed">
        <StateDot state="failed" />
        <b title={reason}>{reason ? `Failed: ${reason}` : 'Failed'}</b>
        <span className="num">{`${status.detail} · ${kept ? strings.diskKept(kept) : strings.diskGoes}`}</span>
        <LinesButton row={row} />
      </span>
    );
  }
  const why = phase === 'running' ? '' : reasonOf(row);
  return (
    <span className={`state ${styles.state}`} data-state={status.state}>
      <StateDot state={status.state} />
      <b>{status.word}</b>
      {status.detail && <span className="num">{status.detail}</span>}
      {why && (
        <span className={styles.why} title={why}>
          {why}
        </span>
      )}
      {phase === 'ended' && <LinesButton row={row} />}
    </span>
  );
}

export function Template({ row }: { row: SandboxRow }) {
  const name = plainName(templateName(row));
  return (
    <span className="mono dim" title={name}>
      {name}
    </span>
  );
}

export const sizeOf = (row: SandboxRow): string => `${row.cpuCount} vCPU · ${mib(row.memoryMB)}`;

const MAKERS: Record<string, ReactNode> = { key: <KeyRound />, user: <User />, system: <Server /> };

export function MadeBy({ row }: { row: SandboxRow }) {
  const maker = row.createdBy;
  if (!maker) return <span className="meta">{strings.none}</span>;
  const name = plainName(maker.name || maker.id || '', 60);
  return (
    <span className={`row dim ${styles.by}`} title={`${strings.makers[maker.kind] ?? maker.kind}: ${name}`}>
      {MAKERS[maker.kind]}
      <span className="cut">{name}</span>
    </span>
  );
}

/** When it ends; for one that cannot go on by itself, the button that mends it. */
export function Ends({ row }: { row: SandboxRow }) {
  const now = useNow();
  const { run } = useRowActs();
  const busy = useContext(BusyRows).has(row.sandboxID);
  if (phaseOf(row) === 'ended') {
    return (
      <Link href={againPath(row)} className="btn sm">
        {strings.createAgain}
      </Link>
    );
  }
  if (can(row, 'recover')) {
    return (
      <button type="button" className="btn sm" disabled={busy} onClick={() => run('recover', row)}>
        {strings.verbs.recover.verb}
      </button>
    );
  }
  const ends = endsOf(row, now);
  if (ends)
    return (
      <time dateTime={row.endAt} title={utc(row.endAt)} className="dim">
        {ends}
      </time>
    );
  const isKept = row.state === 'paused';
  return <span className="dim">{isKept ? strings.kept : strings.none}</span>;
}

export function More({ row }: { row: SandboxRow }) {
  const { openMenu } = useRowActs();
  const label = strings.actionsFor(nameOf(row));
  return (
    <button
      type="button"
      className="btn quiet icon sm"
      aria-haspopup="menu"
      aria-label={label}
      title={label}
      onClick={(event) => openMenu(row, event.currentTarget)}
    >
      <Ellipsis />
    </button>
  );
}

/** The row on narrow screens: what and how it is in two lines, buttons at the end. */
export function SmallRow({ row }: { row: SandboxRow }) {
  const { run } = useRowActs();
  const now = useNow();
  const busy = useContext(BusyRows).has(row.sandboxID);
  const phase = phaseOf(row);
  const ends = endsOf(row, now);
  const left = keptFor(row, now);
  const kept = left ? strings.keptShort(left) : '';
  return (
    <span className={styles.small}>
      <span className={`row ${styles.smallName}`}>
        <Link href={`/sandboxes/${row.sandboxID}`} className="name">
          {nameOf(row)}
        </Link>
        {phase === 'failed' ? <span className="meta">{kept}</span> : <CopyId id={row.sandboxID} />}
      </span>
      <span className={styles.smallState}>
        <State row={row} />
      </span>
      <span className={styles.smallEnd}>
        {can(row, 'recover') && (
          <button type="button" className="btn sm" disabled={busy} onClick={() => run('recover', row)}>
            {strings.verbs.recover.verb}
          </button>
        )}
        {phase === 'ended' && (
          <Link href={againPath(row)} className="btn sm">
            {strings.createAgain}
          </Link>
        )}
        {ends && <span className="meta num">{ends}</span>}
        <More row={row} />
      </span>
    </span>
  );
}

/** The last lines that a sandbox wrote, below its row. */
export function Lines({ row }: { row: SandboxRow }) {
  const lines = linesOf(row);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <pre className={styles.output} role="group" tabIndex={0} aria-label={`${strings.lastLines}: ${nameOf(row)}`}>
      {lines.length > 0 ? lines.join('\n') : strings.noLines}
    </pre>
  );
}

export const linesHeight = (row: SandboxRow): number => Math.min(12, Math.max(1, linesOf(row).length)) * 18 + 22;
