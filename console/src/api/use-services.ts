// Services that stay fresh: the live socket says what has changed.
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query';
import { useLive } from '../live';
import { freshen } from '../live/fresh';
import { applyService } from '../live/services';
import type { Service } from '../wire';
import { serviceQuery, servicesQuery } from './queries';

/** All services of a sandbox. */
export function useServices(sandboxId: string): UseQueryResult<Service[]> {
  const client = useQueryClient();
  useLive(`sandbox:${sandboxId}`, (message) => {
    if (message.type === 'service') applyService(client, message);
    // What a service does follows from what its sandbox does.
    else if (message.type === 'event') freshen(client, ['services', sandboxId]);
  });
  return useQuery(servicesQuery(sandboxId));
}

/** One service; `null` asks for nothing. */
export function useService(id: string | null): UseQueryResult<Service> {
  const client = useQueryClient();
  useLive(id === null ? null : `service:${id}`, (message) => {
    if (message.type === 'service') applyService(client, message);
  });
  return useQuery({ ...serviceQuery(id ?? ''), enabled: id !== null });
}
