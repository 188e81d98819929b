// Two panes with a line between them that one can move: by pointer, or by arrow keys when it has the focus.
import { type CSSProperties, type ReactNode, useRef, useState } from 'react';
import { useShortcuts } from '../shortcuts';

export interface SplitPaneProps {
  /** Under this name its position is kept in this browser. */
  name: string;
  first: ReactNode;
  second: ReactNode;
  /** What the first pane is: "Files". */
  label: string;
  /** Pixels of the first pane at the beginning, and its limits. */
  initial?: number;
  min?: number;
  max?: number;
  /** On narrow screens one pane is seen; which. */
  small?: 'first' | 'second';
}

const STEP = 16;

function stored(name: string): number | null {
  try {
    const value = Number(localStorage.getItem(`cabana.split.${name}`));
    return value > 0 ? value : null;
  } catch {
    return null;
  }
}

function store(name: string, value: number): void {
  try {
    localStorage.setItem(`cabana.split.${name}`, String(Math.round(value)));
  } catch {
    // Storage is off: the position is not kept.
  }
}

export function SplitPane(props: SplitPaneProps) {
  const { name, first, second, label, initial = 280, min = 160, max = 640, small = 'second' } = props;
  const [size, setSize] = useState(() => stored(name) ?? initial);
  const [hidden, setHidden] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useShortcuts([
    {
      keys: 'mod+\\',
      label: `Hide or show ${label.toLowerCase()}`,
      group: 'This page',
      inFields: true,
      run: () => setHidden(!hidden),
    },
  ]);
  function move(next: number): void {
    const size = Math.min(max, Math.max(min, next));
    setSize(size);
    store(name, size);
  }
  function onKeyDown(event: React.KeyboardEvent): void {
    const moves: Record<string, number> = { ArrowLeft: size - STEP, ArrowRight: size + STEP, Home: min, End: max };
    const next = moves[event.key];
    if (next === undefined) return;
    event.preventDefault();
    move(next);
  }
  function onPointerMove(event: React.PointerEvent): void {
    if (!event.currentTarget.hasPointerCapture(event.pointerId) || !box.current) return;
    move(event.clientX - box.current.getBoundingClientRect().left);
  }
  return (
    <div
      className="panes split"
      ref={box}
      data-small={small}
      data-hidden={hidden || undefined}
      style={{ '--a': `${size}px` } as CSSProperties}
    >
      <div className="pane first">{first}</div>
      <div
        className="splitter"
        role="separator"
        aria-orientation="vertical"
        aria-label={`Width of ${label.toLowerCase()}`}
        aria-valuenow={Math.round(size)}
        aria-valuemin={min}
        aria-valuemax={max}
        tabIndex={0}
        onKeyDown={onKeyDown}
        onPointerDown={(event) => {
          event.preventDefault();
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={onPointerMove}
      />
      <div className="pane second">{second}</div>
    </div>
  );
}
