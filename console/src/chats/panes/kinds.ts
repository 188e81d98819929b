// What the pane beside a conversation can show, and how that is remembered.

export type PaneKind = 'service' | 'files' | 'terminal' | 'artifact' | 'diff';

export const PANE_KINDS: readonly PaneKind[] = ['service', 'files', 'terminal', 'artifact', 'diff'];

export interface PaneState {
  kind: PaneKind;
  /** The service or the file that is shown, where the kind has several. */
  target: string | null;
  open: boolean;
}

type Kept = Pick<Storage, 'getItem' | 'setItem'>;

const KEY = 'cabana.chat-panes';
const MOST = 50;

function read(storage: Kept): [string, PaneState][] {
  const value: unknown = JSON.parse(storage.getItem(KEY) ?? '[]');
  if (!Array.isArray(value)) return [];
  return value.slice(0, MOST).flatMap((entry: unknown): [string, PaneState][] => {
    if (!Array.isArray(entry) || typeof entry[0] !== 'string') return [];
    const { kind, target, open } = (entry[1] ?? {}) as Record<string, unknown>;
    if (!PANE_KINDS.includes(kind as PaneKind)) return [];
    const name = typeof target === 'string' && target.length <= 64 ? target : null;
    return [[entry[0], { kind: kind as PaneKind, target: name, open: open === true }]];
  });
}

/** Null if this chat's pane was never used in this browser. */
export function loadChatPane(chatId: string, storage?: Kept): PaneState | null {
  try {
    return read(storage ?? localStorage).find(([id]) => id === chatId)?.[1] ?? null;
  } catch {
    return null;
  }
}

/** The chats that were used last are kept. */
export function storeChatPane(chatId: string, state: PaneState, storage?: Kept): void {
  try {
    const kept = storage ?? localStorage;
    const rest = read(kept).filter(([id]) => id !== chatId);
    kept.setItem(KEY, JSON.stringify([[chatId, state], ...rest].slice(0, MOST)));
  } catch {
    // Storage is off or full: after a reload the pane begins anew.
  }
}
