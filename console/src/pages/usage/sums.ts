// Sums for the chart and the table. Amounts come as exact decimals; here they become numbers to look at.
import type { UsageEntry, UsageKind, UsageSubject } from '../../api';

export type Measure = 'cost' | 'vcpu' | 'memory_mib' | 'paused_memory_mib' | 'disk_mib' | 'cold_mib' | 'tokens';
export type GroupBy = 'kind' | 'project' | 'sandbox' | 'model';

/** Colours of the chart; what has none is added up. */
const MOST_SERIES = 6;
const TOKENS: readonly UsageKind[] = ['input_tokens', 'output_tokens'];

/** In vCPU-hours, GiB-hours, tokens, calls, or units of the currency. */
export function measured(entry: UsageEntry, measure: Measure): number {
  if (measure === 'cost') return entry.costMicros / 1e6;
  const wanted = measure === 'tokens' ? TOKENS.includes(entry.kind) : entry.kind === measure;
  return wanted ? shownAmount(entry) : 0;
}

/** In hours of a vCPU or a GiB; counts as they are. */
export function shownAmount(entry: UsageEntry): number {
  const amount = Number(entry.amount);
  if (entry.unit === 'vCPU-seconds') return amount / 3600;
  return entry.unit === 'MiB-seconds' ? amount / 3600 / 1024 : amount;
}

export function keyOf(entry: UsageEntry, by: GroupBy): string {
  if (by === 'kind') return entry.kind;
  if (by === 'project') return entry.projectId ?? '';
  return by === 'model' ? (entry.model ?? '') : (entry.subjectId ?? '');
}

export interface Series {
  key: string;
  /** One for each period. */
  values: number[];
  total: number;
}

export interface Stack {
  /** Beginnings of the periods, in seconds. */
  at: number[];
  /** The largest first; at the end, the rest together, whose key is null. */
  series: (Omit<Series, 'key'> & { key: string | null })[];
}

/** Every period has its place, also without any use. */
export function stack(
  rows: readonly UsageEntry[],
  measure: Measure,
  by: GroupBy,
  from: number,
  to: number,
  step: number,
): Stack {
  const first = Math.floor(from / step) * step;
  const at: number[] = [];
  for (let time = first; time < to; time += step) at.push(time);
  const found = new Map<string, Series>();
  for (const row of rows) {
    const value = measured(row, measure);
    const place = row.period ? Math.floor((Date.parse(row.period) / 1000 - first) / step) : -1;
    if (value === 0 || place < 0 || place >= at.length) continue;
    const key = keyOf(row, by);
    const series = found.get(key) ?? { key, values: at.map(() => 0), total: 0 };
    series.values[place] = (series.values[place] ?? 0) + value;
    series.total += value;
    found.set(key, series);
  }
  const sorted = [...found.values()].sort((a, b) => b.total - a.total || (a.key < b.key ? -1 : 1));
  if (sorted.length <= MOST_SERIES) return { at, series: sorted };
  const rest = sorted.slice(MOST_SERIES - 1);
  const others = {
    key: null,
    values: at.map((_, place) => rest.reduce((sum, one) => sum + (one.values[place] ?? 0), 0)),
    total: rest.reduce((sum, one) => sum + one.total, 0),
  };
  return { at, series: [...sorted.slice(0, MOST_SERIES - 1), others] };
}

export interface Line {
  key: string;
  subjectKind?: UsageSubject | null | undefined;
  vcpu: number;
  memory: number;
  disk: number;
  tokens: number;
  cost: number;
}

/** One line for each group, the most expensive first, then those that used most of the CPU. */
export function lines(rows: readonly UsageEntry[], by: GroupBy): Line[] {
  const found = new Map<string, Line>();
  for (const row of rows) {
    const key = keyOf(row, by);
    const line = found.get(key) ?? {
      key,
      subjectKind: row.subjectKind,
      vcpu: 0,
      memory: 0,
      disk: 0,
      tokens: 0,
      cost: 0,
    };
    line.vcpu += measured(row, 'vcpu');
    line.memory += measured(row, 'memory_mib') + measured(row, 'paused_memory_mib');
    line.disk += measured(row, 'disk_mib') + measured(row, 'cold_mib');
    line.tokens += measured(row, 'tokens');
    line.cost += row.costMicros;
    found.set(key, line);
  }
  return [...found.values()].sort((a, b) => b.cost - a.cost || b.vcpu - a.vcpu || (a.key < b.key ? -1 : 1));
}

export interface KindLine {
  kind: UsageKind;
  amount: number;
  cost: number;
}

/** One line for each kind, in the order of the API. */
export function kinds(rows: readonly UsageEntry[], order: readonly UsageKind[]): KindLine[] {
  return order.flatMap((kind) => {
    const own = rows.filter((row) => row.kind === kind);
    if (own.length === 0) return [];
    const amount = own.reduce((sum, row) => sum + shownAmount(row), 0);
    return [{ kind, amount, cost: own.reduce((sum, row) => sum + row.costMicros, 0) }];
  });
}

/** "2 803", "4.2", "0.031": three digits that matter. */
export function figure(value: number): string {
  if (value === 0) return '0';
  if (value < 0.001) return '< 0.001';
  if (value >= 1000) return Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f');
  return String(Number(value.toPrecision(3)));
}

/** "12.40 EUR", exact to the hundredth, and to the last digit where there is less than one. */
export function money(micros: number, currency: string): string {
  const small = micros !== 0 && Math.abs(micros) < 10_000;
  return `${(micros / 1e6).toFixed(small ? 6 : 2).replace('-', '\u2212')} ${currency}`;
}
