// Webhooks and what was delivered to them.
import type { NewWebhook, Webhook, WebhookDelivery, WebhookUpdate } from '../wire';
import { part, request } from './client';

const at = (id: string, rest = '') => `/events/webhooks/${part(id)}${rest}`;

export const listWebhooks = (signal?: AbortSignal) => request<Webhook[]>('GET', '/events/webhooks', { signal });

export const getWebhook = (id: string, signal?: AbortSignal) => request<Webhook>('GET', at(id), { signal });

export const createWebhook = (body: NewWebhook) => request<Webhook>('POST', '/events/webhooks', { body });

export const updateWebhook = (id: string, body: WebhookUpdate) => request<Webhook>('PATCH', at(id), { body });

export const deleteWebhook = (id: string) => request<void>('DELETE', at(id));

export const listDeliveries = (id: string, limit?: number, signal?: AbortSignal) =>
  request<WebhookDelivery[]>('GET', at(id, '/deliveries'), { query: { limit }, signal });
