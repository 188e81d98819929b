// One row of a VirtualTable.
import { memo, type ReactNode } from 'react';

export interface Column<T> {
  id: string;
  header: ReactNode;
  /** Of CSS grid: `120px`, `minmax(160px, 2fr)`. */
  width: string;
  right?: boolean;
  cell: (row: T) => ReactNode;
  /** The column goes where the table is narrower than this many pixels. */
  hideBelow?: number;
  /**
   * How many columns the cell of this row takes, from here on: a failed row tells why instead of sizes. `visible` has
   * the ids of the columns that are there.
   */
  span?: (row: T, visible: readonly string[]) => number;
  /** Pressing the head sorts by it. */
  sortable?: boolean;
}

interface RowProps<T> {
  row: T;
  id: string;
  rowKey: string;
  index: number;
  top: number;
  height: number;
  columns: readonly Column<T>[];
  template: string;
  small?: (row: T) => ReactNode;
  label: string;
  dim: boolean;
  selectable: boolean;
  selected: boolean;
  cursor: boolean;
  onPress: (key: string, open: boolean) => void;
  onSelect: (key: string, on: boolean, shift: boolean) => void;
}

const INTERACTIVE = 'a, button, input, label, select, textarea, [role="menu"]';

function Cells<T>({ row, columns }: { row: T; columns: readonly Column<T>[] }) {
  const cells: ReactNode[] = [];
  const visible = columns.map((column) => column.id);
  for (let i = 0; i < columns.length; ) {
    const column = columns[i]!;
    const span = Math.max(1, Math.min(column.span?.(row, visible) ?? 1, columns.length - i));
    cells.push(
      <div
        key={column.id}
        role="gridcell"
        aria-colspan={span > 1 ? span : undefined}
        className={column.right ? 'vcell right' : 'vcell'}
        style={span > 1 ? { gridColumn: `span ${span}` } : undefined}
      >
        {column.cell(row)}
      </div>,
    );
    i += span;
  }
  return <>{cells}</>;
}

function Row<T>(props: RowProps<T>) {
  const { row, rowKey, index, selectable, selected, small } = props;
  const className = ['vrow', props.cursor ? 'cursor' : '', props.dim ? 'asleep' : '', small ? 'two-line' : '']
    .filter(Boolean)
    .join(' ');
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the grid handles keys
    <div
      role="row"
      id={props.id}
      className={className}
      aria-rowindex={index + 2}
      aria-selected={selectable ? selected : undefined}
      style={{ top: props.top, height: props.height, gridTemplateColumns: props.template }}
      onClick={(event) => {
        if ((event.target as HTMLElement).closest(INTERACTIVE)) return props.onPress(rowKey, false);
        props.onPress(rowKey, window.getSelection()?.isCollapsed !== false);
      }}
    >
      {selectable && (
        <div role="gridcell" className="vcell vcheck">
          <input
            type="checkbox"
            className="check"
            aria-label={`Select ${props.label}`}
            checked={selected}
            onChange={(event) => {
              const shift = (event.nativeEvent as MouseEvent).shiftKey;
              props.onSelect(rowKey, event.target.checked, shift);
            }}
          />
        </div>
      )}
      {small ? (
        <div role="gridcell" className="vcell vsmall">
          {small(row)}
        </div>
      ) : (
        <Cells row={row} columns={props.columns} />
      )}
    </div>
  );
}

export const VirtualRow = memo(Row) as typeof Row;
