// How many sandboxes are in which state.

import type { SandboxRow } from '../../api';
import { statusOf } from '../../format/sandbox';
import { count } from '../../format/size';
import { Link, Skeleton, StateDot } from '../../ui';
import styles from './dashboard.module.css';
import { strings } from './strings';

const STATES = ['running', 'paused', 'archived', 'failed'] as const;

export function countStates(rows: readonly SandboxRow[]): Record<(typeof STATES)[number], number> {
  const counts = { running: 0, paused: 0, archived: 0, failed: 0 };
  for (const row of rows) {
    const { state } = statusOf(row, 0);
    if (state === 'creating') counts.running += 1;
    else if (state in counts) counts[state as keyof typeof counts] += 1;
  }
  return counts;
}

export function Counts({ rows }: { rows: readonly SandboxRow[] | undefined }) {
  const counts = rows && countStates(rows);
  return (
    <div className={`card ${styles.counts}`}>
      {STATES.map((state) => (
        <Link
          key={state}
          href={`/sandboxes?state=${state}`}
          className={styles.count}
          data-zero={counts?.[state] === 0 || undefined}
        >
          <span className="row">
            <StateDot state={state} />
            {strings.states[state]}
          </span>
          <span className={styles.number}>{counts ? count(counts[state]) : <Skeleton width={36} height={18} />}</span>
          <span className="meta cut">{strings.notes[state]}</span>
        </Link>
      ))}
    </div>
  );
}
