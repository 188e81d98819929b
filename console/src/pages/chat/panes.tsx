// The conversation and the pane beside it, with a line between them that one can move.
import { type CSSProperties, type ReactNode, useRef, useState } from 'react';
import styles from './chat.module.css';
import { strings } from './strings';

const KEY = 'cabana.split.chat';
const LEAST = 25;
const MOST = 75;
const STEP = 2;

function stored(): number {
  try {
    const value = Number(localStorage.getItem(KEY));
    return value >= LEAST && value <= MOST ? value : 46;
  } catch {
    return 46;
  }
}

export interface PanesProps {
  first: ReactNode;
  /** Null: it is hidden. */
  second: ReactNode | null;
  side: 'chat' | 'pane';
}

export function Panes({ first, second, side }: PanesProps) {
  const [percent, setPercent] = useState(stored);
  const [dragging, setDragging] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  function move(next: number): void {
    const value = Math.min(MOST, Math.max(LEAST, next));
    setPercent(value);
    try {
      localStorage.setItem(KEY, String(Math.round(value)));
    } catch {
      // Storage is off: the position is not kept.
    }
  }
  function onKeyDown(event: React.KeyboardEvent): void {
    const moves: Record<string, number> = {
      ArrowLeft: percent - STEP,
      ArrowRight: percent + STEP,
      Home: LEAST,
      End: MOST,
    };
    const next = moves[event.key];
    if (next === undefined) return;
    event.preventDefault();
    move(next);
  }
  function onPointerMove(event: React.PointerEvent): void {
    const bounds = box.current?.getBoundingClientRect();
    if (!dragging || !bounds) return;
    move(((event.clientX - bounds.left) / bounds.width) * 100);
  }
  return (
    <div
      ref={box}
      className={styles.panes}
      data-side={side}
      data-open={second !== null || undefined}
      data-dragging={dragging || undefined}
      style={{ '--a': `${percent}%` } as CSSProperties}
    >
      <div className={styles.first}>{first}</div>
      {second !== null && (
        <>
          <div
            className={`splitter ${styles.splitter}`}
            role="separator"
            aria-orientation="vertical"
            aria-label={strings.splitter}
            aria-valuenow={Math.round(percent)}
            aria-valuemin={LEAST}
            aria-valuemax={MOST}
            tabIndex={0}
            onKeyDown={onKeyDown}
            onPointerDown={(event) => {
              event.preventDefault();
              event.currentTarget.setPointerCapture(event.pointerId);
              setDragging(true);
            }}
            onPointerMove={onPointerMove}
            onPointerUp={() => setDragging(false)}
            onPointerCancel={() => setDragging(false)}
          />
          <div className={styles.second}>{second}</div>
        </>
      )}
    </div>
  );
}
