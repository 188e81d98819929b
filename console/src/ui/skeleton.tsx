// Loading: nothing for 150 ms, then the shape of what comes.
import { type CSSProperties, type ReactNode, useEffect, useState } from 'react';

const WIDTHS = [34, 26, 40, 30, 22, 36];

/** False for the first 150 ms, so that what is fast does not flicker. */
export function useLate(ms = 150): boolean {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), ms);
    return () => clearTimeout(timer);
  }, [ms]);
  return late;
}

export function Skeleton({ width = '100%', height }: { width?: string | number; height?: number }) {
  const style: CSSProperties = { width, height };
  return <span className="skel" style={style} aria-hidden="true" />;
}

/** Hides what it is given until it is late, and says "Loading" to those who cannot see it. */
export function Loading({ children, label = 'Loading' }: { children?: ReactNode; label?: string }) {
  const late = useLate();
  return (
    <div role="status" aria-busy="true" aria-label={label} className="loading">
      {late && children}
    </div>
  );
}

/** Rows of a list. */
export function SkeletonRows({ rows = 6 }: { rows?: number }) {
  return (
    <Loading>
      <div className="tablebox">
        {Array.from({ length: rows }, (_, i) => (
          <div className="skel-row" key={i}>
            <Skeleton width={12} height={12} />
            <Skeleton width={`${WIDTHS[i % WIDTHS.length]}%`} />
            <span className="grow" />
            <Skeleton width={`${12 + ((i * 5) % 11)}%`} />
          </div>
        ))}
      </div>
    </Loading>
  );
}

/** Lines of a text or of a card. */
export function SkeletonLines({ lines = 3 }: { lines?: number }) {
  return (
    <Loading>
      <div className="stack skel-lines">
        {Array.from({ length: lines }, (_, i) => (
          <Skeleton key={i} width={`${92 - ((i * 17) % 40)}%`} />
        ))}
      </div>
    </Loading>
  );
}
