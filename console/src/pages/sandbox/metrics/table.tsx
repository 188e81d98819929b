// What the charts say, as a table: peaks of equal times.
import { useMemo } from 'react';
import type { SandboxMetric } from '../../../api';
import { bytes } from '../../../format/size';
import { utc } from '../../../format/time';
import { Table } from '../../../ui';
import { strings } from '../strings';
import { eventWords } from '../words/event';
import { clock } from './axis';
import { type Mark, toRows } from './series';

/** About 60 rows, whatever the range. */
function stepOf(minutes: number): number {
  return [60, 300, 600, 1800, 3600, 10_800, 43_200].find((step) => (minutes * 60) / step <= 60) ?? 43_200;
}

export function MetricsTable({
  items,
  marks,
  minutes,
}: {
  items: readonly SandboxMetric[];
  marks: readonly Mark[];
  minutes: number;
}) {
  const words = strings.metrics;
  const rows = useMemo(() => toRows(items, marks, stepOf(minutes)), [items, marks, minutes]);
  const size = (value: number) => (Number.isNaN(value) ? '–' : bytes(value));
  return (
    <Table
      label={words.table}
      columns={[
        { label: words.time },
        { label: words.cpu, right: true },
        { label: words.memory, right: true },
        { label: words.disk, right: true },
        { label: words.event, wide: true },
      ]}
    >
      {rows.map((row) => (
        <tr key={row.at}>
          <td className="num" title={utc(row.at * 1000)}>
            {clock(row.at)}
          </td>
          <td className="num right">{Number.isNaN(row.cpu) ? '–' : `${row.cpu.toFixed(1)} %`}</td>
          <td className="num right">{size(row.memory)}</td>
          <td className="num right">{size(row.disk)}</td>
          <td className="only-wide">{row.events.map((event) => eventWords(event).what).join(', ')}</td>
        </tr>
      ))}
    </Table>
  );
}
