// The server itself.
import type { Check, ServerStatus } from '../wire';
import { request } from './client';
import type { Doctor } from './types';

export const getStatus = (signal?: AbortSignal) => request<ServerStatus>('GET', '/status', { signal });

/** Compares what the server has written down with what is there. */
export const checkServer = (signal?: AbortSignal) => request<Check>('GET', '/status/check', { signal });

export const getDoctor = (signal?: AbortSignal) => request<Doctor>('GET', '/status/doctor', { signal });
