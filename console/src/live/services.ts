// Keeps cached services as the live socket tells it.
import type { QueryClient } from '@tanstack/react-query';
import type { ServiceMessage } from '../api/types';
import type { Service } from '../wire';
import { freshen } from './fresh';

/** A list after a message; the same list if that changes nothing. New ones come last, as the server lists them. */
export function patchServices(list: Service[], message: ServiceMessage): Service[] {
  if ('deleted' in message) {
    return list.some((one) => one.id === message.deleted) ? list.filter((one) => one.id !== message.deleted) : list;
  }
  const { service } = message;
  if (!list.some((one) => one.id === service.id)) return [...list, service];
  return list.map((one) => (one.id === service.id ? service : one));
}

export function applyService(client: QueryClient, message: ServiceMessage): void {
  const gone = 'deleted' in message;
  const id = gone ? message.deleted : message.service.id;
  const sandboxId = gone ? message.sandboxId : message.service.sandboxId;
  const list = ['services', sandboxId];
  client.setQueryData<Service[]>(list, (old) => old && patchServices(old, message));
  // An answer that is on its way may have been written before this change.
  if (client.getQueryState(list)?.fetchStatus === 'fetching') freshen(client, list);
  if (gone) {
    // Whoever shows it asks again, and is told that it is gone.
    void client.invalidateQueries({ queryKey: ['service', id] });
    return;
  }
  client.setQueryData<Service>(['service', id], message.service);
  if (client.getQueryState(['service', id])?.fetchStatus === 'fetching') freshen(client, ['service', id]);
}
