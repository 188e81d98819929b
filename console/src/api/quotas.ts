// What the team uses and may use.
import type { TeamQuotas } from '../wire';
import { part, request } from './client';

export const getQuotas = (signal?: AbortSignal) => request<TeamQuotas>('GET', '/quotas', { signal });

/** Null removes a limit; kinds that are not named stay. For operators. */
export const setQuotas = (team: string, limits: Record<string, number | null>) =>
  request<TeamQuotas>('PUT', `/admin/teams/${part(team)}/quotas`, { body: { limits } });
