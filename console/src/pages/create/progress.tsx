// What happens while a sandbox is created: phases with times, and the log of a build.
import { useEffect, useRef } from 'react';
import { plain } from '../../format/plain';
import { duration } from '../../format/time';
import { Button, Card, ErrorBanner, StateDot, useNow } from '../../ui';
import styles from './create.module.css';
import { strings } from './strings';
import type { Phase, Run } from './use-create';

const SHAPES = { active: 'creating', done: 'done', failed: 'failed' } as const;

function Line({ phase }: { phase: Phase }) {
  useNow();
  const seconds = phase.seconds ?? (performance.now() - phase.startedAt) / 1000;
  return (
    <li className={styles.phase}>
      <StateDot state={SHAPES[phase.state]} />
      <span>{strings.run.phases[phase.id]}</span>
      <span className="grow cut meta mono">{phase.state === 'active' ? plain(phase.detail, 200) : ''}</span>
      <span className="meta num">{phase.state === 'active' && seconds < 1 ? '' : duration(seconds)}</span>
    </li>
  );
}

export interface ProgressProps {
  run: Run;
  onCancel: () => void;
  onBack: () => void;
  onAgain: () => void;
}

export function Progress({ run, onCancel, onBack, onAgain }: ProgressProps) {
  const log = useRef<HTMLPreElement>(null);
  const failed = run.error !== null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines are followed
  useEffect(() => {
    log.current?.scrollTo(0, log.current.scrollHeight);
  }, [run.log]);
  return (
    <Card title={failed ? strings.run.failedTitle(run.name) : strings.run.title(run.name)}>
      <div className="stack">
        <ol className={styles.phases} aria-live="polite">
          {run.phases.map((phase) => (
            <Line key={phase.id} phase={phase} />
          ))}
        </ol>
        {failed && <ErrorBanner error={run.error} />}
        {run.built && <p className="muted">{strings.run.built(run.built)}</p>}
        {run.log.length > 0 && (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
          <pre ref={log} className={styles.log} role="log" aria-label={strings.run.log} tabIndex={0}>
            {run.log.map((line) => plain(line.message, 1000)).join('\n')}
          </pre>
        )}
        <div className="row">
          {failed ? (
            <>
              <Button onPress={onBack} autoFocus>
                {strings.run.back}
              </Button>
              <Button onPress={onAgain}>{strings.run.again}</Button>
            </>
          ) : (
            <Button onPress={onCancel}>{strings.run.cancel}</Button>
          )}
        </div>
      </div>
    </Card>
  );
}
