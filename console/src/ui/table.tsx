// A plain table for short lists (up to some hundred rows). Long ones: VirtualTable.
import type { ReactNode } from 'react';

export interface TableColumn {
  label: string;
  right?: boolean;
  /** The word is for those who cannot see the table only. */
  hideLabel?: boolean;
  /** Not on screens narrower than 760 px. */
  wide?: boolean;
}

export interface TableProps {
  label: string;
  columns: TableColumn[];
  /** `<tr>`s with as many cells; cells of `wide` columns carry `className="only-wide"`. */
  children: ReactNode;
  className?: string;
}

export function Table({ label, columns, children, className }: TableProps) {
  return (
    <div className="tablebox">
      <table className={className ? `table ${className}` : 'table'} aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.label}
                scope="col"
                className={
                  [column.right ? 'right' : '', column.wide ? 'only-wide' : ''].filter(Boolean).join(' ') || undefined
                }
              >
                {column.hideLabel ? <span className="sr">{column.label}</span> : column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
