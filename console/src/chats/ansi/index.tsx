// What a program printed, in the colours of the theme. While it runs, the end stays in view unless one scrolls up.
import { memo, useLayoutEffect, useMemo, useRef, useState } from 'react';
import styles from './ansi.module.css';
import { type Parsed, parseOutput, type Span } from './parse';
import { strings } from './strings';
import { classesOf } from './style';

export interface OutputProps {
  text: string;
  /** While more comes: the end is followed, and a caret stands there. */
  live?: boolean;
  /** Newest lines that are shown. */
  maxLines?: number;
  /** For readers; "Output" if omitted. */
  label?: string;
  className?: string;
}

const NEAR = 24;

export function Output({ text, live = false, maxLines = 1000, label = strings.output, className }: OutputProps) {
  const { lines, left, isCut } = useMemo<Parsed>(() => parseOutput(text, maxLines), [text, maxLines]);
  const box = useRef<HTMLPreElement>(null);
  const [follows, setFollows] = useState(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new text may move the end
  useLayoutEffect(() => {
    if (live && follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [live, follows, text]);
  function scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    setFollows(scrollHeight - scrollTop - clientHeight < NEAR);
  }
  return (
    <pre
      ref={box}
      className={className ? `${styles.root} ${className}` : styles.root}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      role="group"
      aria-label={label}
      dir="ltr"
      onScroll={live ? scrolled : undefined}
    >
      {(left > 0 || isCut) && <span className={styles.left}>{left > 0 ? strings.left(left) : strings.cut}</span>}
      {lines.map((line, i) => (
        <LineView key={i} line={line} />
      ))}
      {live && <span className="caret" aria-hidden="true" />}
    </pre>
  );
}

const LineView = memo(
  ({ line }: { line: Span[] }) => (
    <span className={styles.line}>
      {line.map((span, i) => {
        const names = classesOf(span.style);
        return names.length === 0 ? (
          span.text
        ) : (
          <span key={i} className={names.map((name) => styles[name]).join(' ')}>
            {span.text}
          </span>
        );
      })}
      {'\n'}
    </span>
  ),
  (old, now) =>
    old.line.length === now.line.length &&
    old.line.every((span, i) => {
      const other = now.line[i]!;
      return span.text === other.text && classesOf(span.style).join() === classesOf(other.style).join();
    }),
);
LineView.displayName = 'LineView';
