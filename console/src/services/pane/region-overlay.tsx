// Over the frame: choosing a rectangle, by pointer or by keys. The page below does not notice.
import { type PointerEvent, useId, useRef, useState } from 'react';
import type { Rect } from '../../bridge/messages';
import { Button, KeyHint } from '../../ui';
import styles from './pane.module.css';
import { afterKey, between, type Corner, isEnough, middle, moved, opposite, type Point, toPage } from './region';
import { strings } from './strings';

const CORNERS: Corner[] = ['nw', 'ne', 'sw', 'se'];

/** What the pointer does: draws from a point that stays, or moves the rectangle. */
type Pull = { kind: 'draw'; from: Point } | { kind: 'move'; from: Point; rect: Rect };

export interface RegionOverlayProps {
  /** How much smaller than it is the page is shown. */
  scale: number;
  busy: boolean;
  /** What becomes of it, on the button. */
  action: string;
  /** With the rectangle in pixels of the page. */
  onTake: (rect: Rect) => void;
  onCancel: () => void;
}

export function RegionOverlay({ scale, busy, action, onTake, onCancel }: RegionOverlayProps) {
  const box = useRef<HTMLDivElement>(null);
  const pull = useRef<Pull | null>(null);
  const [rect, setRect] = useState<Rect | null>(null);
  const [isDrawn, setDrawn] = useState(false);
  const help = useId();

  const bounds = () => ({ width: box.current?.clientWidth ?? 0, height: box.current?.clientHeight ?? 0 });
  function pointOf(event: PointerEvent): Point {
    const { left, top } = box.current?.getBoundingClientRect() ?? { left: 0, top: 0 };
    return { x: event.clientX - left, y: event.clientY - top };
  }
  function begin(event: PointerEvent<HTMLElement>): void {
    if (busy || event.button !== 0 || (event.target as Element).closest('button')) return;
    event.preventDefault();
    box.current?.focus();
    box.current?.setPointerCapture(event.pointerId);
    const from = pointOf(event);
    const { corner, inside } = (event.target as HTMLElement).dataset;
    if (rect && corner) pull.current = { kind: 'draw', from: opposite(rect, corner as Corner) };
    else if (rect && inside) pull.current = { kind: 'move', from, rect };
    else pull.current = { kind: 'draw', from };
    setDrawn(false);
  }
  function move(event: PointerEvent): void {
    const now = pull.current;
    if (!now) return;
    const to = pointOf(event);
    if (now.kind === 'draw') setRect(between(now.from, to, bounds()));
    else setRect(moved(now.rect, { x: to.x - now.from.x, y: to.y - now.from.y }, bounds()));
  }
  function end(): void {
    if (!pull.current) return;
    pull.current = null;
    const good = rect !== null && isEnough(rect);
    if (!good) setRect(null);
    setDrawn(good);
  }
  function take(): void {
    if (!rect) {
      setRect(middle(bounds()));
      setDrawn(true);
    } else if (isEnough(rect) && !busy) {
      onTake(toPage(rect, scale));
    }
  }
  function onKeyDown(event: React.KeyboardEvent): void {
    if (event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      onCancel();
      return;
    }
    if (event.target !== box.current || busy) return;
    const next = afterKey(rect, event, bounds());
    if (next) {
      setRect(next);
      setDrawn(true);
    } else if (event.key === 'Enter') {
      take();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
  const shown = rect && toPage(rect, scale);
  const space = bounds();
  // Where there is no room below, the buttons stand in the rectangle.
  const isLow = rect !== null && rect.y + rect.height > space.height - 46;
  return (
    <div
      ref={(element) => {
        if (element && !box.current) element.focus();
        box.current = element;
      }}
      role="application"
      aria-label={strings.shotRegion}
      aria-describedby={help}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it is drawn on by keys
      tabIndex={0}
      className={styles.overlay}
      data-empty={rect === null || undefined}
      data-busy={busy || undefined}
      onKeyDown={onKeyDown}
      onPointerDown={begin}
      onPointerMove={move}
      onPointerUp={end}
      onPointerCancel={end}
    >
      <p id={help} className={rect ? 'sr' : styles.help}>
        {strings.shotHelp}
      </p>
      {rect && (
        <div
          className={styles.rect}
          data-inside="true"
          style={{ left: rect.x, top: rect.y, width: rect.width, height: rect.height }}
        >
          {CORNERS.map((corner) => (
            <i key={corner} data-corner={corner} />
          ))}
        </div>
      )}
      {rect && shown && (
        <div
          className={styles.under}
          style={
            isLow
              ? { bottom: Math.max(8, space.height - rect.y - rect.height + 8), left: rect.x + 8 }
              : { top: rect.y + rect.height + 10, left: rect.x }
          }
        >
          <output className={styles.size} aria-label={strings.shotRegion}>
            {busy ? strings.taking : strings.size(shown.width, shown.height)}
          </output>
          {isDrawn && (
            <>
              <Button size="sm" look="primary" isDisabled={busy} onPress={take}>
                {action}
                <KeyHint keys="enter" />
              </Button>
              <Button size="sm" onPress={onCancel}>
                {strings.cancel}
              </Button>
            </>
          )}
        </div>
      )}
    </div>
  );
}
