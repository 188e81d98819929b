// The states of a query in a tab. That the sandbox is gone is no error here: the page finds out, and changes.
import { type UseQueryResult, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect } from 'react';
import { isApiError } from '../../api';
import { QueryView } from '../../ui';

const ENDED = ['sandbox_not_found', 'sandbox_state_conflict'];

export const isEnded = (error: unknown): boolean =>
  isApiError(error) &&
  (error.code === 404 || error.code === 410 || error.code === 409) &&
  ENDED.includes(error.error_code);

/** No answer: the frame of the console says quietly that it reconnects, and what is known stays. */
export const isAway = (error: unknown): boolean => isApiError(error) && (error.code === 0 || error.code >= 502);

/** Looks at the sandbox again when a part of it is not found. */
export function useEndWatch(id: string, error: unknown): boolean {
  const client = useQueryClient();
  const ended = isEnded(error);
  useEffect(() => {
    if (ended) void client.invalidateQueries({ queryKey: ['sandbox', id], exact: true });
  }, [client, id, ended]);
  return ended;
}

export interface TabQueryProps<T> {
  id: string;
  query: UseQueryResult<T>;
  skeleton?: ReactNode;
  children: (data: T) => ReactNode;
}

export function TabQuery<T>({ id, query, skeleton, children }: TabQueryProps<T>) {
  const ended = useEndWatch(id, query.error);
  if (query.data !== undefined && (ended || isAway(query.error))) return children(query.data);
  if (ended) return null;
  return (
    <QueryView query={query} skeleton={skeleton}>
      {children}
    </QueryView>
  );
}
