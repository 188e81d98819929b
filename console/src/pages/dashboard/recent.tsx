// The newest sandboxes.
import type { SandboxRow } from '../../api';
import { isAsleep, sandboxName, statusOf, templateName } from '../../format/sandbox';
import { mib } from '../../format/size';
import { Card, Id, Link, SandboxState } from '../../ui';
import styles from './dashboard.module.css';
import { strings } from './strings';

/** It tells why instead of its template. */
const isFailed = (row: SandboxRow) => row.phase === 'failed';

export function Recent({ rows }: { rows: readonly SandboxRow[] }) {
  return (
    <Card title={strings.recent} actions={<Link href="/sandboxes">{strings.all}</Link>} flush className="clip">
      <ul className={styles.recent}>
        {rows.slice(0, 8).map((row) => (
          <li
            key={row.sandboxID}
            data-asleep={isAsleep(statusOf(row).state) || undefined}
            data-failed={isFailed(row) || undefined}
          >
            <span className="row">
              <Link href={`/sandboxes/${row.sandboxID}`} className="cut name">
                {sandboxName(row)}
              </Link>
              {row.metadata?.name && (
                <span className="only-wide">
                  <Id id={row.sandboxID} />
                </span>
              )}
            </span>
            <span className={styles.state}>
              <SandboxState sandbox={row} />
            </span>
            {!isFailed(row) && <span className="only-wide mono cut muted">{templateName(row)}</span>}
            <span className="only-wide meta num right">{`${row.cpuCount} vCPU · ${mib(row.memoryMB)}`}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}
