// Snapshots. A snapshot is named as a template in a creation.
import type { SnapshotInfo } from '../wire';
import { page, part, request } from './client';

export const listSnapshots = (
  query: { sandboxID?: string; name?: string; limit?: number; nextToken?: string } = {},
  signal?: AbortSignal,
) => page<SnapshotInfo>('/snapshots', { query, signal });

export const deleteSnapshot = (snapshotID: string) => request<void>('DELETE', `/templates/${part(snapshotID)}`);
