// Questions before an act that loses something.
import type { SandboxRow } from '../../api';
import { shortId } from '../../format/sandbox';
import { ConfirmDialog } from '../../ui';
import type { Act } from './acts';
import styles from './sandboxes.module.css';
import { strings } from './strings';
import { nameOf } from './words';

export interface Question {
  act: Act;
  rows: readonly SandboxRow[];
}

export interface AskProps {
  question: Question | null;
  onClose: () => void;
  onYes: (question: Question) => unknown | Promise<unknown>;
}

const MOST_NAMED = 6;

/** Whether an act on these is asked about first. */
export function needsQuestion(act: Act, rows: readonly SandboxRow[]): boolean {
  return act === 'kill' || (act === 'archive' && rows.some((row) => row.state === 'running'));
}

function Named({ rows }: { rows: readonly SandboxRow[] }) {
  return (
    <ul className={styles.named}>
      {rows.slice(0, MOST_NAMED).map((row) => (
        <li key={row.sandboxID} className="row">
          <b className="cut">{nameOf(row)}</b>
          <span className="id">{shortId(row.sandboxID)}</span>
        </li>
      ))}
      {rows.length > MOST_NAMED && <li className="meta">{strings.andMore(rows.length - MOST_NAMED)}</li>}
    </ul>
  );
}

export function Ask({ question, onClose, onYes }: AskProps) {
  if (!question) return null;
  const { act, rows } = question;
  const [first] = rows;
  const one = rows.length === 1 && first ? nameOf(first) : null;
  const yes = () => onYes(question);
  if (act === 'archive') {
    const what = one ?? strings.many(rows.length);
    return (
      <ConfirmDialog
        isOpen
        onClose={onClose}
        title={strings.archive.title(what)}
        action={strings.archive.action(what)}
        danger={false}
        onConfirm={yes}
      >
        <p>{strings.archive.text}</p>
        {!one && <Named rows={rows} />}
      </ConfirmDialog>
    );
  }
  return (
    <ConfirmDialog
      isOpen
      onClose={onClose}
      title={one ? strings.kill.one(one) : strings.kill.many(rows.length)}
      action={one ? strings.kill.action(one) : strings.kill.manyAction(rows.length)}
      onConfirm={yes}
    >
      <Named rows={rows} />
      <p>{one ? strings.kill.lost : strings.kill.manyLost}</p>
      <p>{one ? strings.kill.stays : strings.kill.manyStay}</p>
    </ConfirmDialog>
  );
}
