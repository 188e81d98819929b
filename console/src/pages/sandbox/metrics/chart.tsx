// One chart. All charts of the page have one cursor; events are marks on the time axis.
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { strings } from '../strings';
import { axisTime, clock } from './axis';
import { type Colors, readColors, thin, useTheme } from './colors';
import styles from './metrics.module.css';
import type { Mark } from './series';

const SYNC = 'sandbox-metrics';
const HEIGHT = 168;

export interface ChartProps {
  title: string;
  color: 'chart-1' | 'chart-2' | 'chart-3';
  at: number[];
  values: (number | null)[];
  /** What there is: the axis never goes beyond it. */
  whole: number;
  /** What the axis shows at least. */
  least: number;
  from: number;
  to: number;
  marks: readonly Mark[];
  format: (value: number) => string;
  /** Steps of the axis are powers of two. */
  binary?: boolean;
  /** "of 2 vCPU". */
  of: string;
  /** Called when it is made, and before it goes. */
  onChart: (chart: uPlot, there: boolean) => void;
}

const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);

function newest(values: readonly (number | null)[]): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

function peakOf(values: readonly (number | null)[]): number | null {
  let peak: number | null = null;
  for (const value of values) if (value !== null && (peak === null || value > peak)) peak = value;
  return peak;
}

export function Chart(props: ChartProps) {
  const { title, at, values, from, to, format, of, onChart } = props;
  const box = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLSpanElement>(null);
  const chart = useRef<uPlot | null>(null);
  const now = useRef(props);
  now.current = props;
  const colors = useRef<Colors | null>(null);
  const theme = useTheme();

  // biome-ignore lint/correctness/useExhaustiveDependencies: made once; the newest props are read when it draws
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    colors.current = readColors();
    const made = new uPlot(options(element.clientWidth, now, colors, readout), [at, values], element);
    chart.current = made;
    onChart(made, true);
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      onChart(made, false);
      made.destroy();
      chart.current = null;
    };
  }, []);

  useEffect(() => {
    chart.current?.setData([at, values], false);
    chart.current?.setScale('x', { min: from, max: to });
  }, [at, values, from, to]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme decides what readColors gives
  useEffect(() => {
    colors.current = readColors();
    chart.current?.redraw(false, true);
  }, [theme, props.marks]);

  const last = newest(values);
  const peak = peakOf(values);
  const words = strings.metrics;
  const say = (value: number | null) => (value === null ? '–' : format(value));
  return (
    <figure className={styles.chart} data-chart={props.color}>
      <figcaption>
        <i className={styles.swatch} aria-hidden="true" />
        <b>{title}</b>
        <span className="meta">{of}</span>
        <span className="grow" />
        <span className="num" ref={readout} data-rest={`${words.latest(say(last))} · ${words.peak(say(peak))}`}>
          {`${words.latest(say(last))} · ${words.peak(say(peak))}`}
        </span>
      </figcaption>
      <div ref={box} className={styles.plot} role="img" aria-label={words.caption(title, say(last), say(peak))} />
    </figure>
  );
}

type Latest<T> = { current: T };

function options(
  width: number,
  props: Latest<ChartProps>,
  colors: Latest<Colors | null>,
  readout: Latest<HTMLSpanElement | null>,
): uPlot.Options {
  const color = (name: keyof Colors) => () => colors.current?.[name] ?? '#888';
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const line = color(props.current.color);
  const grid = { show: true, stroke: color('chart-grid'), width: 1 };
  return {
    width,
    height: HEIGHT,
    padding: [10, 20, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: SYNC, setSeries: false },
      y: false,
      drag: { x: false, y: false },
      points: { size: 7, width: 1.5, fill: () => colors.current?.[props.current.color] ?? '#888' },
    },
    scales: {
      x: { time: true, range: () => [props.current.from, props.current.to] },
      y: {
        range: (_, __, max) => {
          const { whole, least } = props.current;
          return [
            0,
            Math.max(Math.min(whole || Number.POSITIVE_INFINITY, (max || 0) * 1.25), Math.min(least, whole || least)),
          ];
        },
      },
    },
    series: [
      {},
      {
        stroke: line,
        width: 1.25,
        fill: () => thin(line(), 0.13),
        spanGaps: false,
        points: { show: false },
      },
    ],
    axes: [
      {
        stroke: color('text-3'),
        font,
        grid: { show: false },
        ticks: { show: true, stroke: color('chart-grid'), width: 1, size: 4 },
        size: 26,
        space: 72,
        values: (_, splits) => splits.map((at) => axisTime(at, props.current.to - props.current.from)),
      },
      {
        stroke: color('text-3'),
        font,
        grid,
        ticks: { show: false },
        size: 62,
        gap: 6,
        space: 36,
        ...(props.current.binary ? { incrs: POWERS } : {}),
        values: (_, splits) => splits.map((value) => props.current.format(value)),
      },
    ],
    hooks: {
      draw: [(chart) => drawMarks(chart, props.current.marks, colors.current)],
      setCursor: [(chart) => tell(chart, props.current, readout.current)],
    },
  };
}

function tell(chart: uPlot, { values, at, format }: ChartProps, target: HTMLSpanElement | null): void {
  if (!target) return;
  const index = chart.cursor.idx;
  const value = index === null || index === undefined ? null : values[index];
  const time = index === null || index === undefined ? undefined : at[index];
  target.textContent =
    (chart.cursor.left ?? -1) >= 0 && value !== null && value !== undefined && time !== undefined
      ? `${clock(time)} · ${format(value)}`
      : (target.dataset.rest ?? '');
}

function drawMarks(chart: uPlot, marks: readonly Mark[], colors: Colors | null): void {
  const { ctx, bbox } = chart;
  const scale = devicePixelRatio || 1;
  ctx.save();
  ctx.lineWidth = scale;
  ctx.setLineDash([3 * scale, 3 * scale]);
  for (const mark of marks) {
    const x = Math.round(chart.valToPos(mark.at, 'x', true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const failed = mark.event.type.endsWith('.failed');
    const color = colors?.[failed ? 'failed' : 'line-field'] ?? '#888';
    ctx.strokeStyle = color;
    ctx.fillStyle = color;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x - 4 * scale, bbox.top - 6 * scale);
    ctx.lineTo(x + 4 * scale, bbox.top - 6 * scale);
    ctx.lineTo(x, bbox.top);
    ctx.fill();
  }
  ctx.restore();
}
