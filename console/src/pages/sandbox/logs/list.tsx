// The lines that are seen, of a list of any length.
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'react';
import { clock, duration, utc } from '../../../format/time';
import { isCoarse, useVirtual } from '../../../ui/use-virtual';
import { strings } from '../strings';
import type { Line, Outcome } from './lines';
import styles from './logs.module.css';

const words = strings.logs;
/** Nearer than this to an edge counts as being there, in pixels. */
const EDGE = 40;

export interface LineListProps {
  lines: readonly Line[];
  outcomes: Map<string, Outcome>;
  follow: boolean;
  onFollow: (follow: boolean) => void;
  /** The upper end is seen. */
  onTop: () => void;
  chosen: string | null;
  onChoose: (key: string | null) => void;
  /** Above the first line. */
  head: React.ReactNode;
}

export function LineList({ lines, outcomes, follow, onFollow, onTop, chosen, onChoose, head }: LineListProps) {
  const id = useId();
  const scroller = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const height = isCoarse() ? 34 : 22;
  const { range, scrollTo } = useVirtual(body, lines.length, height);
  const [cursor, setCursor] = useState<string | null>(null);
  const first = useRef<string | undefined>(undefined);
  const top = useRef(onTop);
  top.current = onTop;

  // Older lines that come in above leave what is read where it is; new ones are followed.
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const before = first.current === undefined ? -1 : lines.findIndex((line) => line.key === first.current);
    first.current = lines[0]?.key;
    if (follow) box.scrollTop = box.scrollHeight;
    else if (before > 0) box.scrollTop += before * height;
  }, [lines, follow, height]);

  // A short list shows its upper end without any scrolling.
  useEffect(() => {
    const box = scroller.current;
    if (box && lines.length > 0 && box.scrollHeight <= box.clientHeight + EDGE) top.current();
  }, [lines]);

  function onScroll(): void {
    const box = scroller.current;
    if (!box) return;
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < EDGE;
    if (atEnd !== follow) onFollow(atEnd);
    if (box.scrollTop < EDGE * 4) onTop();
  }

  function onKeyDown(event: React.KeyboardEvent): void {
    const at = lines.findIndex((line) => line.key === cursor);
    const page = 20;
    const moves: Record<string, number> = {
      ArrowDown: at < 0 ? range.start : at + 1,
      ArrowUp: at < 0 ? range.end - 1 : at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: lines.length - 1,
    };
    const to = moves[event.key];
    if (event.key === 'Enter' && cursor) onChoose(cursor);
    else if (event.key === 'Escape' && chosen) onChoose(null);
    else if (to !== undefined) {
      const next = Math.min(lines.length - 1, Math.max(0, to));
      setCursor(lines[next]?.key ?? null);
      scrollTo(next);
    } else return;
    event.preventDefault();
  }

  const seen = lines.slice(range.start, range.end);
  const active = seen.findIndex((line) => line.key === cursor);
  return (
    <div ref={scroller} data-scroller="" className={styles.scroller} onScroll={onScroll}>
      {head}
      <div
        role="listbox"
        aria-label={words.label}
        tabIndex={0}
        className={styles.list}
        aria-activedescendant={active >= 0 ? `${id}-${range.start + active}` : undefined}
        onKeyDown={onKeyDown}
      >
        <div ref={body} role="presentation" style={{ height: lines.length * height, position: 'relative' }}>
          {seen.map((line, i) => {
            const index = range.start + i;
            return (
              <Row
                key={line.key}
                id={`${id}-${index}`}
                line={line}
                index={index}
                count={lines.length}
                height={height}
                outcome={outcomes.get(line.key)}
                cursor={line.key === cursor}
                chosen={line.key === chosen}
                onPress={() => {
                  setCursor(line.key);
                  onChoose(line.key === chosen ? null : line.key);
                }}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  id: string;
  line: Line;
  index: number;
  count: number;
  height: number;
  outcome: Outcome | undefined;
  cursor: boolean;
  chosen: boolean;
  onPress: () => void;
}

function Row({ id, line, index, count, height, outcome, cursor, chosen, onPress }: RowProps) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the list has the focus and takes the keys
    <div
      id={id}
      role="option"
      tabIndex={-1}
      aria-selected={chosen}
      aria-posinset={index + 1}
      aria-setsize={count}
      data-level={line.level}
      data-quiet={/^Process \d+ ended: /.test(line.text) || undefined}
      data-cursor={cursor || undefined}
      className={styles.row}
      style={{ height, transform: `translateY(${index * height}px)` }}
      onClick={onPress}
    >
      <time dateTime={line.timestamp} title={utc(line.timestamp)}>
        {clock(line.timestamp)}
      </time>
      <span className={styles.level}>{line.level}</span>
      <span className={styles.text}>{line.text.replace(/^Process (\d+) started: /, '$ ')}</span>
      {outcome && <Result outcome={outcome} />}
    </div>
  );
}

export function Result({ outcome }: { outcome: Outcome }) {
  const { code, failed, seconds } = outcome;
  if (code === null) return <span className={styles.result}>{words.running}</span>;
  return (
    <span className={styles.result} data-failed={failed || undefined}>
      {/^\d+$/.test(code) ? words.exit(code) : code.slice(0, 40)}
      <span className="only-wide">{` · ${duration(Math.max(0.001, seconds))}`}</span>
    </span>
  );
}
