// The steps of a build: state, what it is, how long it took.
import { plainName } from '../../format/plain';
import { duration } from '../../format/time';
import { Since, StateDot } from '../../ui';
import styles from './build.module.css';
import type { Step } from './log';
import { strings } from './strings';

const WORDS: Record<string, string> = { done: 'done', creating: 'running', failed: 'failed', stopped: 'stopped' };

export function StepsList({ steps, onGo }: { steps: Step[]; onGo: (line: number) => void }) {
  return (
    <ol className={styles.steps}>
      {steps.map((step) => {
        const title = plainName(step.title, 200);
        return (
          <li key={step.id} data-state={step.state}>
            <button type="button" className={styles.step} onClick={() => onGo(step.line)} title={title}>
              <StateDot state={step.state} />
              <span className="sr">{WORDS[step.state]} </span>
              <span className="mono cut grow">{title}</span>
              <span className="meta num">
                {step.cached ? (
                  strings.cached
                ) : step.took === null ? (
                  <Since at={step.startedAt} />
                ) : (
                  duration(step.took >= 1000 ? Math.round(step.took / 100) / 10 : step.took / 1000)
                )}
              </span>
            </button>
          </li>
        );
      })}
    </ol>
  );
}
