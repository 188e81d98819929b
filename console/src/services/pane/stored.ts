// What a pane showed, kept until the browser's tab is closed.
import { isPath } from './path';
import { isWidth, type Width } from './width';

export interface StoredPane {
  path: string;
  width: Width;
  /** Whether it is open; the page around it can open it again after a reload. */
  open: boolean;
}

type Kept = Pick<Storage, 'getItem' | 'setItem'>;

const KEY = 'cabana.panes';
const MOST = 30;
const USUAL: StoredPane = { path: '/', width: 'full', open: false };

function read(storage: Kept): [string, StoredPane][] {
  const value: unknown = JSON.parse(storage.getItem(KEY) ?? '[]');
  if (!Array.isArray(value)) return [];
  return value.slice(0, MOST).flatMap((entry: unknown): [string, StoredPane][] => {
    if (!Array.isArray(entry) || typeof entry[0] !== 'string') return [];
    const { path, width, open } = (entry[1] ?? {}) as Record<string, unknown>;
    if (typeof path !== 'string' || !isPath(path) || !isWidth(width)) return [];
    return [[entry[0], { path, width, open: open === true }]];
  });
}

export function loadPane(serviceId: string, storage: Kept = sessionStorage): StoredPane {
  try {
    return read(storage).find(([id]) => id === serviceId)?.[1] ?? USUAL;
  } catch {
    return USUAL;
  }
}

/** Keeps a change; the panes that were used last are kept. */
export function storePane(serviceId: string, change: Partial<StoredPane>, storage?: Kept): void {
  try {
    const kept = storage ?? sessionStorage;
    const all = read(kept);
    const old = all.find(([id]) => id === serviceId)?.[1] ?? USUAL;
    const next: StoredPane = { ...old, ...change };
    if (!isPath(next.path)) next.path = '/';
    const rest = all.filter(([id]) => id !== serviceId);
    kept.setItem(KEY, JSON.stringify([[serviceId, next], ...rest].slice(0, MOST)));
  } catch {
    // Storage is off or full: after a reload the pane begins at the front page.
  }
}
