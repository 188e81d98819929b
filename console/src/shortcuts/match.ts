// Which keys mean which shortcut. Pure: the DOM is in index.ts.

/** `mod+k`, `g s` (one after the other), `c`, `?`, `j`, `escape`, `mod+enter`. `mod` is ⌘ on Apple's, Ctrl elsewhere. */
export interface Shortcut {
  keys: string;
  /** What it does: "Go to sandboxes". */
  label: string;
  /** Heading in the list of all: "Go to", "This list". */
  group: string;
  run: (event: KeyboardEvent) => void;
  /** Works while one types in a field, too. For keys with `mod` and `escape`. */
  inFields?: boolean;
  /** Not in the list of all. */
  hidden?: boolean;
}

export interface Key {
  key: string;
  metaKey: boolean;
  ctrlKey: boolean;
  altKey: boolean;
}

/** A key press in the words of `keys`. */
export function nameOf(event: Key, apple: boolean): string {
  const mod = apple ? event.metaKey : event.ctrlKey;
  const other = apple ? event.ctrlKey : event.metaKey;
  const key = event.key === ' ' ? 'space' : event.key.toLowerCase();
  return `${other ? 'other+' : ''}${event.altKey ? 'alt+' : ''}${mod ? 'mod+' : ''}${key}`;
}

/** What has been pressed, with the next key: the shortcut, a longer wait, or nothing. */
export function advance<T extends { keys: string }>(
  shortcuts: readonly T[],
  pressed: string,
  next: string,
): { match?: T; pressed: string } {
  const sequences = pressed ? [`${pressed} ${next}`, next] : [next];
  for (const sequence of sequences) {
    // The newest wins: a page's shortcut stands before one of the shell.
    const match = shortcuts.findLast((shortcut) => shortcut.keys === sequence);
    if (match) return { match, pressed: '' };
    if (shortcuts.some((shortcut) => shortcut.keys.startsWith(`${sequence} `))) return { pressed: sequence };
  }
  return { pressed: '' };
}

const SYMBOLS: Record<string, string> = {
  enter: '⏎',
  escape: 'Esc',
  arrowup: '↑',
  arrowdown: '↓',
  arrowleft: '←',
  arrowright: '→',
  backspace: '⌫',
  delete: 'Del',
  space: 'Space',
  '\\': '\\',
};

/** The keys as people read them: [["⌘K"]], or [["G"], ["S"]] for one after the other. */
export function readable(keys: string, apple: boolean): string[] {
  return keys.split(' ').map((press) => {
    const parts = press.split('+').filter(Boolean);
    const words = parts.map((part) => {
      if (part === 'mod') return apple ? '⌘' : 'Ctrl ';
      if (part === 'alt') return apple ? '⌥' : 'Alt ';
      return SYMBOLS[part] ?? (part.length === 1 ? part.toUpperCase() : part);
    });
    return words.join('');
  });
}
