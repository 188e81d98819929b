// CPU, memory and disk, within what the server allows.
import type { CSSProperties } from 'react';
import type { Quota, Template } from '../../api';
import { mib } from '../../format/size';
import { Button } from '../../ui';
import type { Problems } from './checks';
import styles from './create.module.css';
import type { Draft } from './draft';
import { Problem } from './problem';
import { cpuStops, diskStops, memoryStops, nearest } from './stops';
import { strings } from './strings';

interface SizeSliderProps {
  label: string;
  stops: number[];
  value: number | null;
  usual: number;
  format: (value: number) => string;
  onChange: (value: number | null) => void;
  problem?: string;
}

function SizeSlider({ label, stops, value, usual, format, onChange, problem }: SizeSliderProps) {
  const now = value ?? usual;
  const at = nearest(stops, now);
  const last = Math.max(1, stops.length - 1);
  const words = value === null ? `${format(now)}, ${strings.config.usual}` : format(now);
  return (
    <div className={styles.slider}>
      <div className="row">
        <span className="label">{label}</span>
        <span className="grow" />
        {value === null ? (
          <span className="meta">{strings.config.usual}</span>
        ) : (
          <Button
            size="sm"
            look="quiet"
            aria-label={strings.config.reset(label)}
            className={styles.reset}
            onPress={() => onChange(null)}
          >
            {strings.config.resetWord}
          </Button>
        )}
        <b className="num">{format(now)}</b>
      </div>
      <input
        type="range"
        className="range"
        aria-label={label}
        aria-valuetext={words}
        aria-invalid={problem ? true : undefined}
        min={0}
        max={stops.length - 1}
        step={1}
        value={at}
        style={{ '--at': `${(at / last) * 100}%` } as CSSProperties}
        onChange={(event) => {
          const next = stops[Number(event.target.value)] ?? now;
          onChange(next === usual ? null : next);
        }}
      />
      <div className={`row meta num ${styles.ends}`}>
        <span className="grow">{format(stops[0] ?? 0)}</span>
        <span>{format(stops.at(-1) ?? 0)}</span>
      </div>
      <Problem text={problem} />
    </div>
  );
}

export interface SizeProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: Problems;
  template?: Template;
  quota?: Quota;
}

/** What sandboxes have where nothing else is known. */
const USUAL = { cpuCount: 2, memoryMB: 1024, diskSizeMB: 10_240 };

export function Size({ draft, change, problems, template, quota }: SizeProps) {
  const usual = template ?? USUAL;
  const most = {
    cpu: quota?.limit.maxVcpu ?? Math.max(usual.cpuCount, draft.cpu ?? 0),
    memory: quota?.limit.maxRamMb ?? Math.max(usual.memoryMB, draft.memory ?? 0),
    disk: quota?.limit.diskMb ?? Math.max(usual.diskSizeMB, draft.disk ?? 0),
  };
  // The server cuts what a template asks for to what it has.
  const own = {
    cpu: Math.min(usual.cpuCount, most.cpu),
    memory: Math.min(usual.memoryMB, most.memory),
    disk: Math.min(usual.diskSizeMB, most.disk),
  };
  return (
    <div className={styles.sliders}>
      <SizeSlider
        label={strings.config.cpu}
        stops={cpuStops(most.cpu, draft.cpu ?? own.cpu)}
        value={draft.cpu}
        usual={own.cpu}
        format={(value) => `${value} vCPU`}
        onChange={(cpu) => change({ cpu })}
        problem={problems.cpu}
      />
      <SizeSlider
        label={strings.config.memory}
        stops={memoryStops(most.memory, draft.memory ?? own.memory)}
        value={draft.memory}
        usual={own.memory}
        format={mib}
        onChange={(memory) => change({ memory })}
        problem={problems.memory}
      />
      <SizeSlider
        label={strings.config.disk}
        stops={diskStops(most.disk, draft.disk ?? own.disk)}
        value={draft.disk}
        usual={own.disk}
        format={mib}
        onChange={(disk) => change({ disk })}
        problem={problems.disk}
      />
    </div>
  );
}
