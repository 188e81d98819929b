// The audit log.
import type { AuditEntry, AuditPage } from '../wire';
import { request, url } from './client';

export type { AuditEntry };

export interface AuditFilter {
  from?: string;
  actor?: string;
  action?: string;
  target?: string;
  result?: string;
}

const base = (all: boolean) => (all ? '/admin/audit' : '/audit');

/** `all`: of all teams and the server, for operators. */
export const listAudit = (
  all: boolean,
  filter: AuditFilter,
  page: { cursor?: string; limit?: number; signal?: AbortSignal } = {},
) => {
  const { signal, ...rest } = page;
  return request<AuditPage>('GET', base(all), { query: { ...filter, ...rest }, signal });
};

/** Where a browser downloads the entries that match. */
export const auditExport = (all: boolean, filter: AuditFilter, format: 'jsonl' | 'csv') =>
  url(`${base(all)}/export`, { ...filter, format });
