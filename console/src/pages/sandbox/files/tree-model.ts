// The rows of the tree, flat, as they are drawn. Pure.
import type { Directory, FileEntry } from '../../../api';

export type TreeRow =
  | {
      kind: 'entry';
      key: string;
      entry: FileEntry;
      level: number;
      expanded: boolean | null;
      position: number;
      size: number;
    }
  | { kind: 'note'; key: string; note: 'loading' | 'empty' | 'truncated' | 'error'; level: number; directory: string };

export interface Listing {
  data?: Directory;
  error?: unknown;
}

/** `listings` by path of directory; a directory that is expanded and not there is being loaded. */
export function flatten(
  root: string,
  listings: ReadonlyMap<string, Listing>,
  expanded: ReadonlySet<string>,
  level = 1,
  out: TreeRow[] = [],
): TreeRow[] {
  const listing = listings.get(root);
  const note = (note: 'loading' | 'empty' | 'truncated' | 'error') =>
    out.push({ kind: 'note', key: `${root}\0${note}`, note, level, directory: root });
  if (!listing?.data) {
    note(listing?.error ? 'error' : 'loading');
    return out;
  }
  const { entries, truncated } = listing.data;
  if (entries.length === 0) note('empty');
  entries.forEach((entry, i) => {
    const open = entry.type === 'directory' ? expanded.has(entry.path) : null;
    // Names that are not UTF-8 may look the same: the place makes the key unique.
    const key = entry.path.includes('\ufffd') ? `${entry.path}\0${i}` : entry.path;
    out.push({ kind: 'entry', key, entry, level, expanded: open, position: i + 1, size: entries.length });
    if (open && level < 64) flatten(entry.path, listings, expanded, level + 1, out);
  });
  if (truncated) note('truncated');
  return out;
}

/** Directories whose entries are in the tree. */
export function shownDirectories(
  root: string,
  listings: ReadonlyMap<string, Listing>,
  expanded: ReadonlySet<string>,
  level = 1,
): string[] {
  const entries = listings.get(root)?.data?.entries ?? [];
  const inner = entries.filter((entry) => entry.type === 'directory' && expanded.has(entry.path) && level < 64);
  return [root, ...inner.flatMap((entry) => shownDirectories(entry.path, listings, expanded, level + 1))];
}
