// When it ends, and what happens then.
import { NumberField, Segmented, Select, Switch } from '../../ui';
import type { Problems } from './checks';
import styles from './create.module.css';
import type { Draft, Unit } from './draft';
import { Problem } from './problem';
import { strings } from './strings';

const words = strings.config;
const UNITS = (['m', 'h', 'd'] as const).map((id) => ({ id, label: words.units[id] }));

export interface LifeProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: Problems;
  /** Whether this server can keep memory. */
  canKeepMemory: boolean;
}

export function Life({ draft, change, problems, canKeepMemory }: LifeProps) {
  const pauses = draft.onTimeout === 'pause';
  return (
    <div className="stack">
      <div className={styles.two}>
        <div className={styles.joined}>
          <NumberField
            label={words.timeout}
            value={draft.timeout}
            onChange={(timeout) => change({ timeout })}
            min={0}
            error={problems.timeout}
            className="grow"
          />
          <Select<Unit>
            label={words.unit}
            hideLabel
            value={draft.unit}
            onChange={(unit) => change({ unit })}
            options={UNITS}
          />
        </div>
        <div className="field">
          <span className={styles.legend}>{words.atTimeout}</span>
          <span>
            <Segmented
              label={words.atTimeout}
              value={draft.onTimeout}
              onChange={(onTimeout) => change({ onTimeout })}
              options={[
                { id: 'pause', label: words.pause },
                { id: 'kill', label: words.kill },
              ]}
            />
          </span>
          <span className="hint">{pauses ? words.pauseText : words.killText}</span>
        </div>
      </div>
      {pauses && canKeepMemory && (
        <Switch isSelected={draft.keepMemory} onChange={(keepMemory) => change({ keepMemory })}>
          <span>
            {words.keepMemory} <span className="meta">{words.keepMemoryText}</span>
          </span>
        </Switch>
      )}
      <div className={styles.two}>
        <NumberField
          label={words.idle}
          value={draft.idle}
          onChange={(idle) => change({ idle })}
          min={0}
          unit={words.minutes}
          hint={words.idleHint}
          error={problems.idle}
        />
        <div className="stack">
          <Switch isSelected={draft.autoResume} onChange={(autoResume) => change({ autoResume })}>
            <span>
              {words.autoResume} <span className="meta">{words.autoResumeText}</span>
            </span>
          </Switch>
          <Problem text={problems.autoResume} />
        </div>
      </div>
    </div>
  );
}
