// The one registry of keyboard shortcuts. A page adds to it while it is mounted:
//   useShortcuts([{ keys: 'p', label: 'Pause', group: 'This sandbox', run: pause }])
import { useEffect, useRef, useSyncExternalStore } from 'react';
import { advance, nameOf, type Shortcut } from './match';

export { readable, type Shortcut } from './match';

export const isApple = typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.platform);

const SEQUENCE_MS = 1200;
let registered: readonly Shortcut[] = [];
const listeners = new Set<() => void>();

function change(next: readonly Shortcut[]): void {
  registered = next;
  for (const listener of listeners) listener();
}

export function register(shortcuts: readonly Shortcut[]): () => void {
  change([...registered, ...shortcuts]);
  return () => change(registered.filter((shortcut) => !shortcuts.includes(shortcut)));
}

/** Adds shortcuts while the component is mounted. They may close over state: the newest `run` is called. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  });
  const same = JSON.stringify(shortcuts.map((s) => [s.keys, s.label, s.group, s.inFields, s.hidden]));
  // biome-ignore lint/correctness/useExhaustiveDependencies: `same` stands for the shortcuts; `run` is looked up late
  useEffect(() => register(shortcuts.map((s, i) => ({ ...s, run: (event) => latest.current[i]?.run(event) }))), [same]);
}

/** All that work now. */
export function useAllShortcuts(): readonly Shortcut[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => registered,
  );
}

/** Whether keys belong to what has the focus: a field, an editor, a terminal, an open menu or dialog. */
function isBusy(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  const field = target.closest(
    'input, textarea, select, [contenteditable=""], [contenteditable="true"], .xterm, .cm-editor',
  );
  if (field) return !(field instanceof HTMLInputElement && /^(checkbox|radio|button|range)$/.test(field.type));
  return (
    target.closest('[role="dialog"], [role="alertdialog"], [role="menu"], [role="listbox"], [data-keys="own"]') !== null
  );
}

/** Enter and Space press a link or a button that has the focus; they are no shortcuts then. */
function pressesTarget(event: KeyboardEvent): boolean {
  if (event.key !== 'Enter' && event.key !== ' ') return false;
  return event.target instanceof HTMLElement && event.target.closest('a[href], button, summary, input') !== null;
}

/** Listens to the keyboard. Called once, by the shell. */
export function listen(): () => void {
  let pressed = '';
  let timer: ReturnType<typeof setTimeout> | undefined;
  function onKey(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing || event.repeat || /^(Shift|Control|Meta|Alt)$/.test(event.key))
      return;
    if (pressesTarget(event) && !event.metaKey && !event.ctrlKey) return;
    const busy = isBusy(event.target);
    const usable = busy ? registered.filter((shortcut) => shortcut.inFields) : registered;
    const result = advance(usable, busy ? '' : pressed, nameOf(event, isApple));
    clearTimeout(timer);
    pressed = result.pressed;
    if (pressed) timer = setTimeout(() => (pressed = ''), SEQUENCE_MS);
    if (!result.match) return;
    event.preventDefault();
    result.match.run(event);
  }
  document.addEventListener('keydown', onKey);
  return () => {
    clearTimeout(timer);
    document.removeEventListener('keydown', onKey);
  };
}
