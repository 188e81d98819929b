// Why a build failed: the step, its last lines, and what to do.
import { Lightbulb } from 'lucide-react';
import type { BuildReason } from '../../api';
import { plain } from '../../format/plain';
import { Card, StateDot } from '../../ui';
import styles from './build.module.css';
import { isCancelled, reasonOf } from './log';
import { strings } from './strings';

export function Failure({ reason, actions }: { reason: BuildReason; actions: React.ReactNode }) {
  const { text, lastLines, hint } = reasonOf(reason.message);
  const cancelled = isCancelled(reason);
  const numbered = reason.step && /^\d+$/.test(reason.step);
  const title = cancelled ? strings.cancelled : numbered ? strings.failedAt(reason.step ?? '') : strings.failed;
  return (
    <Card
      className={cancelled ? undefined : styles.failure}
      title={
        <span className="row" data-state={cancelled ? 'stopped' : 'failed'}>
          <StateDot state={cancelled ? 'stopped' : 'failed'} />
          <h2>{title}</h2>
        </span>
      }
      actions={actions}
    >
      <div className="stack">
        {!cancelled && <p className={styles.reason}>{plain(text, 1200)}</p>}
        {lastLines.length > 0 && (
          <div className="code wrap-lines">
            <header>{strings.lastLines}</header>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
            <pre tabIndex={0} className={styles.lastLines}>
              {lastLines.map((line) => plain(line, 1000)).join('\n')}
            </pre>
          </div>
        )}
        {hint && (
          <div className="banner">
            <Lightbulb />
            <span className="grow">
              <b>{strings.hint}:</b> {plain(hint, 600)}
            </span>
          </div>
        )}
        <p className="meta">{strings.kept}</p>
      </div>
    </Card>
  );
}
