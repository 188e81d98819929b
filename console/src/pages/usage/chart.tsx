// Stacked bars over time.
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { axisTime } from '../sandbox/metrics/axis';
import { type Colors, readColors, useTheme } from '../sandbox/metrics/colors';
import { figure, type Stack } from './sums';
import styles from './usage.module.css';

const HEIGHT = 220;
export const COLORS = ['chart-1', 'chart-2', 'chart-3', 'chart-4', 'chart-5', 'chart-6'] as const;

export interface ChartProps {
  stack: Stack;
  step: number;
  label: string;
}

export default function Chart({ stack, step, label }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const theme = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme decides what readColors gives
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const chart = new uPlot(options(element.clientWidth, stack, step, readColors()), piled(stack), element);
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [stack, step, theme]);
  return <div ref={box} className={styles.plot} role="img" aria-label={label} />;
}

/** Each series on top of those after it: the first one is drawn first, and the others over it. */
function piled({ at, series }: Stack): uPlot.AlignedData {
  const below = at.map(() => 0);
  const piles: number[][] = [];
  for (const one of series.toReversed()) {
    for (const [place, value] of one.values.entries()) below[place] = (below[place] ?? 0) + value;
    piles.unshift([...below]);
  }
  return [at, ...piles];
}

function options(width: number, { at, series }: Stack, step: number, colors: Colors): uPlot.Options {
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const [first, last] = [at[0] ?? 0, (at.at(-1) ?? 0) + step];
  const bars = uPlot.paths.bars?.({ size: [0.78, 48], align: 1 });
  return {
    width,
    height: HEIGHT,
    padding: [10, 8, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: true, range: () => [first, last] }, y: { range: (_, __, max) => [0, (max || 1) * 1.08] } },
    series: [
      {},
      ...series.map((_, place) => ({
        fill: colors[COLORS[place] ?? 'chart-6'],
        width: 0,
        points: { show: false },
        ...(bars ? { paths: bars } : {}),
      })),
    ],
    axes: [
      {
        stroke: colors['text-3'],
        font,
        grid: { show: false },
        ticks: { show: true, stroke: colors['chart-grid'], width: 1, size: 4 },
        size: 26,
        space: 72,
        values: (_, splits) => splits.map((time) => axisTime(time, last - first)),
      },
      {
        stroke: colors['text-3'],
        font,
        grid: { show: true, stroke: colors['chart-grid'], width: 1 },
        ticks: { show: false },
        size: 56,
        gap: 6,
        space: 36,
        values: (_, splits) => splits.map(figure),
      },
    ],
  };
}
