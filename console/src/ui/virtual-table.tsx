// A table of any length: only the rows that are seen are drawn. It scrolls with the page (the nearest [data-scroller]).
// The component library's table builds a collection of all rows first, which takes seconds for 10,000 of them.
// Keys: J K ↑ ↓ Home End move, X or Space selects, Enter opens, Escape clears the selection.
import { ArrowDown, ArrowUp } from 'lucide-react';
import { type ReactNode, useCallback, useId, useMemo, useRef, useState } from 'react';
import { useShortcuts } from '../shortcuts';
import { isCoarse, useVirtual, useWidth } from './use-virtual';
import { type Opened, select, topOf } from './virtual';
import { type Column, VirtualRow } from './virtual-row';

export type { Column } from './virtual-row';

export interface Sort {
  column: string;
  descending: boolean;
}

export interface VirtualTableProps<T> {
  /** "Sandboxes". */
  label: string;
  rows: readonly T[];
  /** Keep the same array between renders (useMemo, or outside of the component). */
  columns: readonly Column<T>[];
  rowKey: (row: T) => string;
  /** What a row is called, for "Select todo-app". */
  rowLabel: (row: T) => string;
  /** Enter, or a press on the row beside its links and buttons. */
  onOpen?: (row: T) => void;
  /** With both, rows can be selected. */
  selected?: ReadonlySet<string>;
  onSelect?: (selected: Set<string>) => void;
  /** In a quieter colour. */
  dim?: (row: T) => boolean;
  /** The row on narrow screens: two lines. Keep the same function between renders. */
  small?: (row: T) => ReactNode;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** What is shown below one of the rows, and how high that is. */
  detail?: { key: string; height: number; node: ReactNode } | null;
  /** What stands in place of rows, when there are none. */
  empty?: ReactNode;
}

const SMALL_WIDTH = 700;
const NONE: ReadonlySet<string> = new Set();

export function VirtualTable<T>(props: VirtualTableProps<T>) {
  const { label, rows, rowKey, rowLabel, onOpen, selected = NONE, onSelect, dim, sort, onSort, detail, empty } = props;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const small = props.small && width < SMALL_WIDTH ? props.small : undefined;
  const height = small ? 58 : isCoarse() ? 46 : 38;
  const selectable = onSelect !== undefined;

  const columns = useMemo(
    () => props.columns.filter((column) => !column.hideBelow || width >= column.hideBelow),
    [props.columns, width],
  );
  const check = selectable ? '42px ' : '';
  const template = small ? `${check}minmax(0, 1fr)` : check + columns.map((column) => column.width).join(' ');

  const keys = useMemo(() => rows.map(rowKey), [rows, rowKey]);
  const [cursorKey, setCursorKey] = useState<string | null>(null);
  const anchor = useRef<string | null>(null);
  const cursor = useMemo(() => (cursorKey === null ? -1 : keys.indexOf(cursorKey)), [keys, cursorKey]);
  const openedAt = detail ? keys.indexOf(detail.key) : -1;
  const opened: Opened | null = detail && openedAt >= 0 ? { index: openedAt, height: detail.height } : null;
  const { range, scrollTo } = useVirtual(body, rows.length, height, opened);

  // Rows are memoised: their callbacks stay the same and look up what is current.
  const now = useRef({ rows, keys, selected, onSelect, onOpen });
  now.current = { rows, keys, selected, onSelect, onOpen };
  const press = useCallback((key: string, open: boolean) => {
    setCursorKey(key);
    const row = now.current.rows[now.current.keys.indexOf(key)];
    if (open && row !== undefined) now.current.onOpen?.(row);
  }, []);
  const choose = useCallback((key: string, on: boolean, shift: boolean) => {
    const { keys, selected, onSelect } = now.current;
    const from = shift && anchor.current !== null ? keys.indexOf(anchor.current) : -1;
    anchor.current = key;
    onSelect?.(select(selected, keys, keys.indexOf(key), from < 0 ? null : from, on));
  }, []);

  function move(to: number): void {
    const next = Math.min(rows.length - 1, Math.max(0, to));
    const key = keys[next];
    if (key === undefined) return;
    setCursorKey(key);
    scrollTo(next);
  }
  const open = () => cursor >= 0 && rows[cursor] !== undefined && onOpen?.(rows[cursor]);
  const toggle = () => cursorKey !== null && cursor >= 0 && choose(cursorKey, !selected.has(cursorKey), false);
  const group = label;
  useShortcuts([
    { keys: 'j', label: 'Next row', group, run: () => move(cursor + 1) },
    { keys: 'k', label: 'Row before', group, run: () => move(cursor < 0 ? 0 : cursor - 1) },
    ...(onOpen ? [{ keys: 'enter', label: 'Open', group, run: open }] : []),
    ...(onSelect
      ? [
          { keys: 'x', label: 'Select', group, run: toggle },
          { keys: 'mod+a', label: 'Select all', group, run: () => onSelect(new Set(keys)) },
          ...(selected.size > 0
            ? [{ keys: 'escape', label: 'Clear the selection', group, run: () => onSelect(new Set()) }]
            : []),
        ]
      : []),
  ]);

  function onKeyDown(event: React.KeyboardEvent): void {
    if (event.target !== event.currentTarget) return;
    const page = 12;
    const moves: Record<string, number> = {
      ArrowDown: cursor + 1,
      ArrowUp: cursor - 1,
      PageDown: cursor + page,
      PageUp: cursor - page,
      Home: 0,
      End: rows.length - 1,
    };
    const to = moves[event.key];
    if (to !== undefined) move(to);
    else if (event.key === ' ' && selectable) toggle();
    else return;
    event.preventDefault();
  }

  const all = rows.length > 0 && selected.size >= rows.length;
  const drawn = rows.slice(range.start, range.end);
  return (
    <div className="tablebox vtable" ref={box}>
      <div
        role="grid"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        aria-multiselectable={selectable || undefined}
        aria-activedescendant={cursor >= range.start && cursor < range.end ? `${id}-${cursorKey}` : undefined}
        tabIndex={0}
        className="vgrid"
        onKeyDown={onKeyDown}
      >
        <div role="row" aria-rowindex={1} className="vrow vhead" style={{ gridTemplateColumns: template }}>
          {selectable && (
            <div role="columnheader" className="vcell vcheck">
              <input
                type="checkbox"
                className="check"
                aria-label={`Select all ${rows.length}`}
                checked={all}
                ref={(input) => {
                  if (input) input.indeterminate = selected.size > 0 && !all;
                }}
                onChange={() => onSelect(all ? new Set() : new Set(keys))}
              />
            </div>
          )}
          {small ? (
            <div role="columnheader" className="vcell">
              {label}
            </div>
          ) : (
            columns.map((column) => <Head key={column.id} column={column} sort={sort} onSort={onSort} />)
          )}
        </div>
        <div ref={body} role="rowgroup" className="vbody" style={{ height: topOf(rows.length, height, opened) }}>
          {drawn.map((row, i) => {
            const index = range.start + i;
            const key = keys[index]!;
            return (
              <VirtualRow
                key={key}
                id={`${id}-${key}`}
                rowKey={key}
                row={row}
                index={index}
                top={topOf(index, height, opened)}
                height={height}
                columns={columns}
                template={template}
                small={small}
                label={rowLabel(row)}
                dim={dim?.(row) ?? false}
                selectable={selectable}
                selected={selected.has(key)}
                cursor={key === cursorKey}
                onPress={press}
                onSelect={choose}
              />
            );
          })}
          {opened && (
            <div
              role="row"
              className="vrow vdetail"
              style={{ top: topOf(openedAt, height, null) + height, height: opened.height }}
            >
              <div role="gridcell" className="vdetail-cell">
                {detail?.node}
              </div>
            </div>
          )}
        </div>
      </div>
      {rows.length === 0 && empty}
    </div>
  );
}

function Head<T>({ column, sort, onSort }: { column: Column<T>; sort?: Sort; onSort?: (sort: Sort) => void }) {
  const active = sort?.column === column.id;
  const order = !active ? 'none' : sort.descending ? 'descending' : 'ascending';
  const className = column.right ? 'vcell right' : 'vcell';
  if (!column.sortable || !onSort) {
    return (
      <div role="columnheader" className={className}>
        {column.header}
      </div>
    );
  }
  const next = { column: column.id, descending: active ? !sort.descending : false };
  return (
    <div role="columnheader" aria-sort={order} className={className}>
      <button type="button" className="vsort" onClick={() => onSort(next)}>
        {column.header}
        {active && (sort.descending ? <ArrowDown /> : <ArrowUp />)}
      </button>
    </div>
  );
}
