// The charts of a sandbox, with one cursor. Arrow keys move it.
import { useMemo, useRef } from 'react';
import type uPlot from 'uplot';
import type { SandboxMetric } from '../../../api';
import { bytes } from '../../../format/size';
import { Card } from '../../../ui';
import { strings } from '../strings';
import { Timeline } from '../timeline';
import { Chart } from './chart';
import styles from './metrics.module.css';
import { type Mark, stopsOf, toColumns } from './series';

const MIB = 1024 * 1024;
const words = strings.metrics;

export interface ChartsProps {
  items: readonly SandboxMetric[];
  marks: readonly Mark[];
  from: number;
  to: number;
}

export default function Charts({ items, marks, from, to }: ChartsProps) {
  const columns = useMemo(() => toColumns(items, stopsOf(marks.map((mark) => mark.event)), to), [items, marks, to]);
  const charts = useRef(new Set<uPlot>());
  const index = useRef<number | null>(null);
  const last = items.at(-1);

  function onKeyDown(event: React.KeyboardEvent): void {
    const [plot] = charts.current;
    const moves: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 };
    const move = moves[event.key];
    if (!plot || (move === undefined && event.key !== 'Escape')) return;
    event.preventDefault();
    if (move === undefined) {
      index.current = null;
      for (const one of charts.current) one.setCursor({ left: -10, top: -10 });
      return;
    }
    const end = columns.at.length - 1;
    index.current = Math.min(end, Math.max(0, (plot.cursor.idx ?? index.current ?? end) + move));
    const left = plot.valToPos(columns.at[index.current] ?? to, 'x');
    for (const one of charts.current) one.setCursor({ left, top: 10 });
  }

  const onChart = (made: uPlot, there: boolean) => {
    if (there) charts.current.add(made);
    else charts.current.delete(made);
  };
  const common = { at: columns.at, from, to, marks, onChart };
  return (
    <>
      <div
        role="group"
        className={styles.charts}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move the cursor of the charts
        tabIndex={0}
        aria-label={`${words.charts}. ${words.keys}`}
        data-keys="own"
        onKeyDown={onKeyDown}
      >
        <Chart
          {...common}
          title={words.cpu}
          color="chart-1"
          values={columns.cpu}
          whole={100}
          least={10}
          format={percentOf}
          of={words.of(`${last?.cpuCount ?? 1} vCPU`)}
        />
        <Chart
          {...common}
          title={words.memory}
          color="chart-2"
          values={columns.memory}
          whole={last?.memTotal ?? 0}
          least={16 * MIB}
          format={bytes}
          binary
          of={words.of(bytes(last?.memTotal ?? 0))}
        />
        <Chart
          {...common}
          title={words.disk}
          color="chart-3"
          values={columns.disk}
          whole={last?.diskTotal ?? 0}
          least={MIB}
          format={bytes}
          binary
          of={words.of(bytes(last?.diskTotal ?? 0))}
        />
      </div>
      <p className="meta">{`${words.gap} ${words.keys}`}</p>
      {marks.length > 0 && (
        <Card title={words.marks} flush>
          <Timeline events={marks.map((mark) => mark.event).slice(0, 20)} short />
        </Card>
      )}
    </>
  );
}

function percentOf(value: number): string {
  return `${value < 10 ? value.toFixed(1).replace(/\.0$/, '') : Math.round(value)} %`;
}
