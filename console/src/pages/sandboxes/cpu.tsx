// CPU use of one row: a small line, and the newest number.
import { memo, useCallback, useSyncExternalStore } from 'react';
import { latestMetrics, type SandboxRow } from '../../api';
import { phaseOf } from './acts';
import { CpuStore, sparkPath } from './cpu-store';
import styles from './sandboxes.module.css';
import { strings } from './strings';

const store = new CpuStore({
  isHidden: () => document.hidden,
  fetch: async (ids, signal) => {
    const { sandboxes } = await latestMetrics(ids, signal);
    const samples = Object.entries(sandboxes).map(([id, metric]) => [
      id,
      { at: metric.timestampUnix, percent: metric.cpuUsedPct },
    ]);
    return Object.fromEntries(samples);
  },
});

const Spark = memo(function Spark({ id }: { id: string }) {
  const watch = useCallback((listener: () => void) => store.watch(id, listener), [id]);
  const samples = useSyncExternalStore(watch, () => store.get(id));
  const newest = samples.at(-1);
  const line = sparkPath(samples, 64, 20);
  const words = newest ? `${Math.round(newest.percent)} %` : '';
  return (
    <span className={styles.cpu}>
      <svg className="spark" viewBox="0 0 64 20" preserveAspectRatio="none" aria-hidden="true">
        <path className={styles.base} d="M0 19H64" />
        {samples.length > 1 && <path className="area" d={`${line}L64 20L${line.slice(1).split(' ')[0]} 20Z`} />}
        {line && <path d={line} />}
      </svg>
      <span className="meta num">{words}</span>
    </span>
  );
});

export function Cpu({ row }: { row: SandboxRow }) {
  if (phaseOf(row) === 'running') return <Spark id={row.sandboxID} />;
  return <span className="meta">{strings.none}</span>;
}
