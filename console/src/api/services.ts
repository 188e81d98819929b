// Services: commands in a sandbox that people look at through a port. Listing and reading never wake a sandbox.

import type {
  NewService,
  NewServiceLink,
  OpenedService,
  OpenService,
  Service,
  ServiceLink,
  ServiceLogLines,
  ServiceUpdate,
} from '../wire';
import { part, request, send } from './client';
import { eventsOf } from './sse';
import type { ServiceLogEnd } from './types';

const at = (id: string, rest = '') => `/services/${part(id)}${rest}`;
const of = (sandboxId: string) => `/sandboxes/${part(sandboxId)}/services`;

export const listServices = (sandboxId: string, signal?: AbortSignal) =>
  request<Service[]>('GET', of(sandboxId), { signal });

export const getService = (id: string, signal?: AbortSignal) => request<Service>('GET', at(id), { signal });

/** Waits up to `waitSeconds` (0…60) for its port. */
export const startService = (sandboxId: string, body: NewService, waitSeconds?: number) =>
  request<Service>('POST', of(sandboxId), { body, query: { waitSeconds } });

export const updateService = (id: string, body: ServiceUpdate) => request<Service>('PATCH', at(id), { body });

/** Stops and forgets it. */
export const deleteService = (id: string) => request<void>('DELETE', at(id));

/** Starts a service that was stopped or has ended, with the same command. */
export const startAgain = (id: string, waitSeconds?: number) =>
  request<Service>('POST', at(id, '/start'), { query: { waitSeconds } });

export const stopService = (id: string, waitSeconds?: number) =>
  request<Service>('POST', at(id, '/stop'), { query: { waitSeconds } });

/** Wakes the sandbox, if it sleeps. */
export const restartService = (id: string, waitSeconds?: number) =>
  request<Service>('POST', at(id, '/restart'), { query: { waitSeconds } });

/** An address for this person: valid once, for a minute. */
export const openService = (id: string, body: OpenService = {}) =>
  request<OpenedService>('POST', at(id, '/open'), { body });

export const serviceLogs = (id: string, tail = 200, signal?: AbortSignal) =>
  request<ServiceLogLines>('GET', at(id, '/logs'), { query: { tail }, signal });

export interface LogFollower {
  onLines: (lines: ServiceLogLines) => void;
  signal?: AbortSignal;
  tail?: number;
}

/** Follows the output. Resolves with the end that the server told, or null if the connection ended without one. */
export async function followServiceLogs(id: string, follower: LogFollower): Promise<ServiceLogEnd | null> {
  const { onLines, signal, tail = 200 } = follower;
  const headers = { Accept: 'text/event-stream' };
  const response = await send('GET', at(id, '/logs'), { query: { tail, follow: true }, headers, signal });
  for await (const { event, data } of eventsOf(response)) {
    if (event === 'lines') onLines(JSON.parse(data) as ServiceLogLines);
    else if (event === 'end') return JSON.parse(data) as ServiceLogEnd;
  }
  return null;
}

export const listLinks = (id: string, signal?: AbortSignal) =>
  request<ServiceLink[]>('GET', at(id, '/links'), { signal });

/** The answer has the address itself, this once. */
export const makeLink = (id: string, body: NewServiceLink) => request<ServiceLink>('POST', at(id, '/links'), { body });

export const revokeLink = (id: string, linkId: string) => request<void>('DELETE', at(id, `/links/${part(linkId)}`));
