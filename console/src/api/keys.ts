// API keys of the team.
import type { ApiKey, NewApiKey } from '../wire';
import { part, request } from './client';

export const listKeys = (signal?: AbortSignal) => request<ApiKey[]>('GET', '/api-keys', { signal });

/** The answer has the key itself, this once. */
export const createKey = (name: string) => request<NewApiKey>('POST', '/api-keys', { body: { name } });

export const renameKey = (id: string, name: string) =>
  request<void>('PATCH', `/api-keys/${part(id)}`, { body: { name } });

export const deleteKey = (id: string) => request<void>('DELETE', `/api-keys/${part(id)}`);
