// Sessions of people.
import type { ListedSession } from '../wire';
import { part, request } from './client';
import type { Session } from './types';

export const getSession = (signal?: AbortSignal) =>
  request<Session>('GET', '/auth/session', { signal, anonymous: true });

/** Exchanges the one-use code of a welcome link. */
export const welcome = (code: string) => request<Session>('POST', '/auth/welcome', { body: { code }, anonymous: true });

export const signIn = (apiKey: string) =>
  request<Session>('POST', '/auth/sign-in', { body: { apiKey }, anonymous: true });

export const signOut = () => request<void>('DELETE', '/auth/session', { anonymous: true });

export const listSessions = (signal?: AbortSignal) => request<ListedSession[]>('GET', '/auth/sessions', { signal });

export const endOtherSession = (id: string) => request<void>('DELETE', `/auth/sessions/${part(id)}`);
