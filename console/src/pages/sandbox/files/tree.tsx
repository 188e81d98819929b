// The tree. Only rows that are seen are drawn: a directory may have 2000 entries, and the component library's tree builds
// all of them anew at each change. Keys as in the tree pattern of WAI-ARIA, and F2, Delete, Shift+F10.
import { ChevronDown, ChevronRight, File, FileCode2, Folder, FolderOpen, Link2, MoreHorizontal } from 'lucide-react';
import { useEffect, useId, useMemo, useRef, useState } from 'react';
import type { FileEntry } from '../../../api';
import { bytes } from '../../../format/size';
import { Button, IconButton, Menu, type MenuEntry } from '../../../ui';
import { isCoarse, useVirtual } from '../../../ui/use-virtual';
import styles from './files.module.css';
import { Name } from './name';
import { isIn, parentOf, plain } from './names';
import { strings } from './strings';
import type { TreeRow } from './tree-model';

export interface TreeProps {
  rows: readonly TreeRow[];
  /** The file that is shown. */
  current: string | null;
  edited: ReadonlySet<string>;
  /** The directory that a drop would go to. */
  target: string | null;
  onToggle: (path: string, open: boolean) => void;
  onOpen: (entry: FileEntry) => void;
  onRename: (entry: FileEntry) => void;
  onDelete: (entry: FileEntry) => void;
  onRetry: (directory: string) => void;
  actions: (entry: FileEntry) => MenuEntry[];
}

export function Tree(props: TreeProps) {
  const { rows, current, edited, target, onToggle, onOpen } = props;
  const id = useId();
  const body = useRef<HTMLDivElement>(null);
  const height = isCoarse() ? 40 : 26;
  const { range, scrollTo } = useVirtual(body, rows.length, height);
  const [cursorKey, setCursorKey] = useState<string | null>(null);
  const cursor = useMemo(() => rows.findIndex((row) => row.key === cursorKey), [rows, cursorKey]);
  const typed = useRef({ text: '', at: 0 });

  useEffect(() => {
    if (current) setCursorKey(current);
  }, [current]);

  function move(to: number, step = 1): void {
    let next = Math.min(rows.length - 1, Math.max(0, to));
    while (rows[next]?.kind === 'note' && rows[next + step]) next += step;
    const row = rows[next];
    if (row?.kind !== 'entry') return;
    setCursorKey(row.key);
    scrollTo(next);
  }
  function find(letter: string): void {
    const now = Date.now();
    typed.current = { text: (now - typed.current.at < 700 ? typed.current.text : '') + letter.toLowerCase(), at: now };
    const { text } = typed.current;
    const from = text.length === 1 ? cursor + 1 : Math.max(0, cursor);
    for (let i = 0; i < rows.length; i++) {
      const at = (from + i) % rows.length;
      const row = rows[at];
      if (row?.kind === 'entry' && row.entry.name.toLowerCase().startsWith(text)) {
        move(at);
        return;
      }
    }
  }
  function onKeyDown(event: React.KeyboardEvent): void {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = rows[cursor];
    const entry = row?.kind === 'entry' ? row : null;
    const acts: Record<string, () => void> = {
      ArrowDown: () => move(cursor + 1),
      ArrowUp: () => move(cursor - 1, -1),
      PageDown: () => move(cursor + 12),
      PageUp: () => move(cursor - 12, -1),
      Home: () => move(0),
      End: () => move(rows.length - 1, -1),
      ArrowRight: () => {
        if (entry?.expanded === false) onToggle(entry.entry.path, true);
        else if (entry?.expanded) move(cursor + 1);
      },
      ArrowLeft: () => {
        if (entry?.expanded) return onToggle(entry.entry.path, false);
        const up = entry && rows.findIndex((one) => one.key === parentOf(entry.entry.path));
        if (up !== null && up >= 0) move(up);
      },
      Enter: () => entry && press(entry),
      ' ': () => entry && press(entry),
      F2: () => entry && props.onRename(entry.entry),
      Delete: () => entry && props.onDelete(entry.entry),
    };
    const act = acts[event.key];
    if (act) act();
    else if (event.key === 'ContextMenu' || (event.shiftKey && event.key === 'F10')) openMenu();
    else if (event.key.length === 1 && event.key !== '/' && event.key !== '?') find(event.key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
  function press(row: TreeRow & { kind: 'entry' }): void {
    if (row.expanded !== null) onToggle(row.entry.path, !row.expanded);
    else onOpen(row.entry);
  }
  function openMenu(): void {
    const row = document.getElementById(`${id}-${cursor}`);
    row?.querySelector('button')?.click();
  }

  return (
    <div
      role="tree"
      aria-label={strings.tree}
      aria-activedescendant={cursor >= range.start && cursor < range.end ? `${id}-${cursor}` : undefined}
      tabIndex={0}
      className={styles.tree}
      data-keys="own"
      onKeyDown={onKeyDown}
      onFocus={() => cursorKey === null && move(0)}
    >
      <div ref={body} role="presentation" className={styles.rows} style={{ height: rows.length * height }}>
        {rows.slice(range.start, range.end).map((row, i) => {
          const index = range.start + i;
          const place = { top: index * height, height, paddingLeft: 6 + (row.level - 1) * 14 };
          if (row.kind === 'note') {
            return (
              <div key={row.key} role="presentation" className={`${styles.row} ${styles.rowNote}`} style={place}>
                {NOTES[row.note]}
                {row.note === 'error' && (
                  <Button size="sm" look="quiet" onPress={() => props.onRetry(row.directory)}>
                    {strings.tryAgain}
                  </Button>
                )}
              </div>
            );
          }
          const { entry, expanded } = row;
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles keys
            <div
              key={row.key}
              id={`${id}-${index}`}
              role="treeitem"
              aria-level={row.level}
              aria-expanded={expanded ?? undefined}
              aria-selected={entry.path === current}
              aria-setsize={row.size}
              aria-posinset={row.position}
              aria-label={labelOf(entry, edited.has(entry.path))}
              className={styles.row}
              data-cursor={index === cursor || undefined}
              data-target={(target !== null && isIn(target, entry.path)) || undefined}
              data-directory={entry.type === 'directory' ? entry.path : parentOf(entry.path)}
              style={place}
              onClick={(event) => {
                if ((event.target as HTMLElement).closest('button')) return;
                setCursorKey(row.key);
                press(row);
              }}
              onContextMenu={(event) => {
                event.preventDefault();
                setCursorKey(row.key);
                event.currentTarget.querySelector('button')?.click();
              }}
            >
              <span className={styles.twist} aria-hidden="true">
                {expanded !== null && (expanded ? <ChevronDown /> : <ChevronRight />)}
              </span>
              <Icon entry={entry} open={expanded === true} />
              <Name text={entry.name} className={`cut ${styles.rowName}`} />{' '}
              {entry.target && <span className="meta cut">{targetOf(entry)}</span>}{' '}
              {edited.has(entry.path) && <i className={styles.edited} aria-hidden="true" />}
              <span className={`meta num ${styles.rowSize}`}>{entry.type === 'file' && bytes(entry.size)}</span>
              <Menu
                label={strings.moreOf(plain(entry.name, 80))}
                items={props.actions(entry)}
                trigger={
                  <IconButton size="sm" label={strings.more} className={styles.rowMore} excludeFromTabOrder>
                    <MoreHorizontal />
                  </IconButton>
                }
              />
            </div>
          );
        })}
      </div>
    </div>
  );
}

const targetOf = (entry: FileEntry) => (entry.target ? `→ ${plain(entry.target, 80)}` : '');

/** All that is seen of a row, in words. */
function labelOf(entry: FileEntry, edited: boolean): string {
  const size = entry.type === 'file' ? bytes(entry.size) : '';
  return [plain(entry.name), targetOf(entry), size, edited ? strings.edited : ''].filter(Boolean).join(' ');
}

const NOTES = {
  loading: strings.loading,
  empty: strings.empty,
  truncated: strings.truncated,
  error: strings.listFailed,
};

const CODE = /\.(?:[cm]?[jt]sx?|py|rs|go|c|h|cpp|java|rb|php|sh|html|css|sql|json|ya?ml|toml)$/i;

function Icon({ entry, open }: { entry: FileEntry; open: boolean }) {
  const className = 'lucide s';
  if (entry.type === 'directory') return open ? <FolderOpen className={className} /> : <Folder className={className} />;
  if (entry.type === 'symlink') return <Link2 className={className} />;
  return CODE.test(entry.name) ? <FileCode2 className={className} /> : <File className={className} />;
}
