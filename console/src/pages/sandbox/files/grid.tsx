// A table of any length in its own scroller: for CSV files and rows of databases.
import { useRef } from 'react';
import { useVirtual } from '../../../ui/use-virtual';
import styles from './preview.module.css';

export interface GridProps {
  label: string;
  columns: readonly string[];
  rows: readonly (readonly unknown[])[];
  /** How a value is shown. */
  cell: (value: unknown) => React.ReactNode;
  /** The number of the first row. */
  first?: number;
}

const HEIGHT = 28;

export function Grid({ label, columns, rows, cell, first = 1 }: GridProps) {
  const body = useRef<HTMLDivElement>(null);
  const { range } = useVirtual(body, rows.length, HEIGHT);
  const digits = String(first + rows.length).length;
  const template = `${Math.max(5, digits + 3)}ch repeat(${columns.length}, minmax(140px, 1fr))`;
  const width = 60 + columns.length * 140;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div className={styles.gridBox} data-scroller tabIndex={0} role="region" aria-label={label}>
      <div
        role="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        aria-colcount={columns.length + 1}
        style={{ minWidth: width }}
      >
        <div role="rowgroup" className={styles.gridHead}>
          <div role="row" aria-rowindex={1} className={styles.gridRow} style={{ gridTemplateColumns: template }}>
            <span role="columnheader" className={styles.gridNumber}>
              #
            </span>
            {columns.map((column, i) => (
              <span key={i} role="columnheader" className="cut" title={column.slice(0, 300)}>
                {column.slice(0, 300) || '\u00a0'}
              </span>
            ))}
          </div>
        </div>
        <div ref={body} role="rowgroup" className={styles.gridBody} style={{ height: rows.length * HEIGHT }}>
          {rows.slice(range.start, range.end).map((row, i) => {
            const index = range.start + i;
            return (
              <div
                key={index}
                role="row"
                aria-rowindex={index + 2}
                className={styles.gridRow}
                style={{ top: index * HEIGHT, height: HEIGHT, gridTemplateColumns: template }}
              >
                <span role="rowheader" className={styles.gridNumber}>
                  {first + index}
                </span>
                {columns.map((_, column) => (
                  <span key={column} role="cell" className="cut">
                    {cell(row[column])}
                  </span>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
