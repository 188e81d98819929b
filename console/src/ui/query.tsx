// The states of a query on a page: loading, error, old data, data.
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ErrorBanner } from './error';
import { SkeletonRows } from './skeleton';

export interface QueryViewProps<T> {
  query: UseQueryResult<T>;
  /** The shape of what comes. */
  skeleton?: ReactNode;
  children: (data: T) => ReactNode;
}

/** An error stands above what is still known. A refresh never brings the skeleton back. */
export function QueryView<T>({ query, skeleton = <SkeletonRows />, children }: QueryViewProps<T>) {
  const { data, error, refetch, isFetching } = query;
  const retry = isFetching ? undefined : () => void refetch();
  return (
    <>
      {error && (
        <ErrorBanner error={error} onRetry={retry} lead={data === undefined ? undefined : 'This may be old.'} />
      )}
      {data !== undefined ? children(data) : !error && skeleton}
    </>
  );
}
