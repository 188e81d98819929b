// The end of the list: fetches the next page when one comes near it.
import { useEffect, useEffectEvent, useRef } from 'react';
import { Button, ErrorBanner } from '../../ui';
import styles from './sandboxes.module.css';
import { strings } from './strings';

/** Pixels before the end at which the next page is fetched: some 60 rows. */
const AHEAD = 2400;

export interface LoadMoreProps {
  isLoading: boolean;
  error: unknown;
  /** How many rows there are: a new look is taken when there are more. */
  count: number;
  onMore: () => void;
}

export function LoadMore({ isLoading, error, count, onMore }: LoadMoreProps) {
  const mark = useRef<HTMLDivElement>(null);
  const more = useEffectEvent(onMore);
  // biome-ignore lint/correctness/useExhaustiveDependencies: an observer tells of changes only; a new one looks again
  useEffect(() => {
    const element = mark.current;
    if (!element || error !== null) return;
    const root = element.closest('[data-scroller]');
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting) more();
      },
      { root, rootMargin: `${AHEAD}px 0px` },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [count, isLoading, error]);
  return (
    <div ref={mark} className={styles.loadMore}>
      {error !== null && <ErrorBanner error={error} onRetry={onMore} />}
      {error === null && isLoading && <span className="meta">{strings.loadingMore}</span>}
      {error === null && !isLoading && (
        <Button look="quiet" size="sm" onPress={onMore}>
          {strings.loadMore}
        </Button>
      )}
    </div>
  );
}
