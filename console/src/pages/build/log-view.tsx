// The lines of a log: only those that are seen are drawn. It follows the end until one scrolls away from it.
import { ArrowDownToLine } from 'lucide-react';
import { useCallback, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react';
import { plain } from '../../format/plain';
import { clock, utc } from '../../format/time';
import { Button } from '../../ui';
import { rangeOf } from '../../ui/virtual';
import styles from './build.module.css';
import type { Log } from './log';
import { strings } from './strings';

const HEIGHT = 18;
const MOST_CHARACTERS = 1000;

export interface LogHandle {
  /** Scrolls to a line of the whole log. */
  goTo: (line: number) => void;
}

interface Props {
  log: Log;
  /** Indices of the lines that are titles of steps. */
  titles: ReadonlySet<number>;
  times: boolean;
  live: boolean;
  handle: React.Ref<LogHandle>;
}

export function LogView({ log, titles, times, live, handle }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ start: 0, end: 60 });
  const [follow, setFollow] = useState(true);
  const following = useRef(true);
  following.current = follow;
  const count = log.lines.length;

  const measure = useCallback(() => {
    const element = box.current;
    if (!element) return;
    const next = rangeOf(count, HEIGHT, element.scrollTop, element.clientHeight, 20);
    setRange((old) => (old.start === next.start && old.end === next.end ? old : next));
  }, [count]);

  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
    measure();
  }, [follow, measure]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      if (following.current) element.scrollTop = element.scrollHeight;
      measure();
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [measure]);

  useImperativeHandle(handle, () => ({
    goTo(line) {
      setFollow(false);
      if (box.current) box.current.scrollTop = Math.max(0, line - log.dropped) * HEIGHT;
    },
  }));

  function onScroll(): void {
    const element = box.current;
    if (!element) return;
    measure();
    setFollow(element.scrollTop + element.clientHeight >= element.scrollHeight - HEIGHT);
  }

  const drawn = log.lines.slice(range.start, Math.min(range.end, count));
  return (
    <div className={styles.logBox}>
      <div
        ref={box}
        className={styles.log}
        onScroll={onScroll}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={strings.logOf}
      >
        {count === 0 ? (
          <p className={styles.nothing}>{strings.empty}</p>
        ) : (
          <div className={styles.lines} style={{ height: count * HEIGHT }}>
            <div style={{ transform: `translateY(${range.start * HEIGHT}px)` }}>
              {drawn.map((line, i) => {
                const index = log.dropped + range.start + i;
                return (
                  <div
                    key={index}
                    className={styles.line}
                    data-level={line.level}
                    data-title={titles.has(index) || undefined}
                  >
                    {times && (
                      <time dateTime={line.timestamp} title={utc(line.timestamp)}>
                        {clock(line.timestamp)}
                      </time>
                    )}
                    {plain(line.message.replaceAll('\n', ' ⏎ '), MOST_CHARACTERS) || ' '}
                  </div>
                );
              })}
            </div>
          </div>
        )}
      </div>
      {!follow && count > 0 && (
        <Button size="sm" className={styles.follow} onPress={() => setFollow(true)}>
          <ArrowDownToLine />
          {live ? strings.follow : strings.end}
        </Button>
      )}
    </div>
  );
}
