// Agents: a model with instructions and tools. The list is in chats.ts.
import { queryOptions } from '@tanstack/react-query';
import type { Agent, NewAgent } from './chat-types';
import { part, request } from './client';

const at = (id: string) => `/agents/${part(id)}`;

export const getAgent = (id: string, signal?: AbortSignal) => request<Agent>('GET', at(id), { signal });

export const createAgent = (body: NewAgent) => request<Agent>('POST', '/agents', { body });

/** What is omitted stays; an empty `model` is the server's default. */
export const updateAgent = (id: string, body: Partial<Omit<NewAgent, 'kind'>>) =>
  request<Agent>('PATCH', at(id), { body });

export const deleteAgent = (id: string) => request<void>('DELETE', at(id));

export const agentQuery = (id: string) =>
  queryOptions({ queryKey: ['agents', id], queryFn: ({ signal }) => getAgent(id, signal) });
