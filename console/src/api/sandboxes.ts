// Sandboxes: their life, logs, metrics, events, network and ports.
import type {
  Clones,
  ConnectRequest,
  ForkRequest,
  ForkResult,
  LogEntry,
  NetworkRequest,
  NetworkStatus,
  NewSandbox,
  Quota,
  ResizeRequest,
  Sandbox,
  SandboxesMetrics,
  SandboxMetric,
  SnapshotInfo,
  SnapshotRequest,
  Template,
  ToolResult,
  Event as WireEvent,
} from '../wire';
import { type Page, page, pages, part, request } from './client';
import type { Port, SandboxFull, SandboxRow } from './types';

export interface SandboxFilter {
  /** Of `running`, `paused`, `failed` and `ended`; the first three by default. */
  state?: string[];
  /** Id or alias. */
  template?: string;
  /** Labels that all must match. */
  metadata?: Record<string, string>;
  /** Part of an id, an alias or a label's value. */
  q?: string;
  order?: 'asc' | 'desc';
}

const at = (id: string, rest = '') => `/sandboxes/${part(id)}${rest}`;

/** Names and values are encoded once more than the query string does it, as E2B's clients do. */
export function metadataQuery(metadata: Record<string, string> | undefined): string | undefined {
  const entries = Object.entries(metadata ?? {});
  if (entries.length === 0) return undefined;
  return entries.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&');
}

export function listSandboxes(
  filter: SandboxFilter = {},
  options: { limit?: number; nextToken?: string; signal?: AbortSignal } = {},
): Promise<Page<SandboxRow>> {
  const { limit, nextToken, signal } = options;
  const query = {
    state: (filter.state ?? ['running', 'paused', 'failed']).join(','),
    template: filter.template,
    metadata: metadataQuery(filter.metadata),
    q: filter.q,
    order: filter.order,
    limit,
    nextToken,
  };
  return page<SandboxRow>('/v2/sandboxes', { query, signal });
}

/** All pages: one request for each 100 rows. */
export const listAllSandboxes = (filter: SandboxFilter = {}, signal?: AbortSignal, most = 20_000) =>
  pages((nextToken) => listSandboxes(filter, { nextToken, signal }), most);

export const getSandbox = (id: string, signal?: AbortSignal) => request<SandboxFull>('GET', at(id), { signal });

/** An ended sandbox. */
export const getTombstone = (id: string, signal?: AbortSignal) =>
  request<SandboxFull>('GET', at(id, '/tombstone'), { signal });

/** With the same key, a repeated call creates one sandbox. */
export const createSandbox = (body: NewSandbox, idempotencyKey: string = crypto.randomUUID()) =>
  request<Sandbox>('POST', '/v2/sandboxes', { body, headers: { 'Idempotency-Key': idempotencyKey } });

export const killSandbox = (id: string) => request<void>('DELETE', at(id));

export const pauseSandbox = (id: string, memory?: boolean) =>
  request<void>('POST', at(id, '/pause'), { body: memory === undefined ? {} : { memory } });

/** Resumes a paused sandbox, and leaves one that runs as it is. */
export const resumeSandbox = (id: string, body: ConnectRequest = {}) =>
  request<Sandbox>('POST', `/v2/sandboxes/${part(id)}/connect`, { body });

export const recoverSandbox = (id: string) => request<Sandbox>('POST', at(id, '/recover'));

export const archiveSandbox = (id: string, recycle = false) =>
  request<void>('POST', at(id, '/archive'), { body: { recycle } });

export const snapshotSandbox = (id: string, body: SnapshotRequest = {}) =>
  request<SnapshotInfo>('POST', at(id, '/snapshots'), { body });

export const forkSandbox = (id: string, body: ForkRequest = {}) =>
  request<ForkResult[]>('POST', at(id, '/fork'), { body });

export const cloneSandbox = (id: string, count = 1) => request<Clones>('POST', at(id, '/clone'), { body: { count } });

/** Makes a template of a sandbox. */
export const commitSandbox = (id: string, body: { alias?: string; tags?: string[] }) =>
  request<Template>('POST', at(id, '/commit'), { body });

/** Seconds from now. */
export const setTimeoutOf = (id: string, timeout: number) =>
  request<void>('POST', at(id, '/timeout'), { body: { timeout } });

export const resizeSandbox = (id: string, body: ResizeRequest) =>
  request<SandboxRow>('POST', at(id, '/resize'), { body });

export interface LogQuery {
  /** Milliseconds since 1970. */
  cursor?: number;
  limit?: number;
  direction?: 'forward' | 'backward';
  level?: 'debug' | 'info' | 'warn' | 'error';
  search?: string;
}

export const sandboxLogs = (id: string, query: LogQuery = {}, signal?: AbortSignal) =>
  request<{ logs: LogEntry[] }>('GET', `/v2/sandboxes/${part(id)}/logs`, { query: { ...query }, signal });

/** Times are in seconds since 1970. */
export const sandboxMetrics = (id: string, range: { start?: number; end?: number } = {}, signal?: AbortSignal) =>
  request<SandboxMetric[]>('GET', at(id, '/metrics'), { query: { ...range }, signal });

/** The newest sample of each; at most 100 ids. */
export const latestMetrics = (ids: string[], signal?: AbortSignal) =>
  request<SandboxesMetrics>('GET', '/sandboxes/metrics', { query: { sandbox_ids: ids.join(',') }, signal });

export interface EventQuery {
  offset?: number;
  limit?: number;
  orderAsc?: boolean;
  types?: string;
}

export const listEvents = (query: EventQuery = {}, signal?: AbortSignal) =>
  request<WireEvent[]>('GET', '/events/sandboxes', { query: { ...query }, signal });

export const sandboxEvents = (id: string, query: EventQuery = {}, signal?: AbortSignal) =>
  request<WireEvent[]>('GET', `/events/sandboxes/${part(id)}`, { query: { ...query }, signal });

export const getNetwork = (id: string, signal?: AbortSignal) =>
  request<NetworkStatus>('GET', at(id, '/network'), { signal });

export const setNetwork = (id: string, body: NetworkRequest) => request<void>('PUT', at(id, '/network'), { body });

export const listPorts = (id: string, signal?: AbortSignal) => request<Port[]>('GET', at(id, '/ports'), { signal });

export const getQuota = (signal?: AbortSignal) => request<Quota>('GET', '/sandboxes/quota', { signal });

export const callTool = (id: string, name: string, body: Record<string, unknown>, signal?: AbortSignal) =>
  request<ToolResult>('POST', at(id, `/tools/${part(name)}`), { body, signal });

/** A link with which anyone can download a file, or a directory as an archive, for a while. */
export async function downloadUrl(id: string, path: string): Promise<string> {
  const result = await callTool(id, 'sandbox_download_url', { path });
  const link = result.data?.url;
  if (typeof link !== 'string') throw new Error(result.error?.message ?? 'The server gave no link.');
  return link;
}
