// Providers of models. The list of models is in chats.ts.
import { queryOptions } from '@tanstack/react-query';
import type { ModelProvider, NewModelProvider } from './chat-types';
import { part, request } from './client';

export const listProviders = (signal?: AbortSignal) =>
  request<{ providers: ModelProvider[] }>('GET', '/model-providers', { signal });

/** A provider of this name is replaced, its key too. */
export const putProvider = (body: NewModelProvider) =>
  request<ModelProvider | undefined>('POST', '/model-providers', { body });

export const deleteProvider = (name: string) => request<void>('DELETE', `/model-providers/${part(name)}`);

export const providersQuery = () =>
  queryOptions({ queryKey: ['providers'], queryFn: ({ signal }) => listProviders(signal) });
