// Files of a sandbox, its terminals, and questions to its SQLite databases.
import type { FileStat, Terminal, WrittenFile } from '../wire';
import { part, request, send, url } from './client';
import type { Directory, FileContent, SqliteRequest, SqliteRows } from './types';

const at = (id: string, rest: string) => `/sandboxes/${part(id)}${rest}`;

/** An empty path is the working directory. */
export const listFiles = (id: string, path: string, hidden = false, signal?: AbortSignal) =>
  request<Directory>('GET', at(id, '/files'), { query: { path, hidden: hidden || undefined }, signal });

export const statFile = (id: string, path: string, signal?: AbortSignal) =>
  request<FileStat>('GET', at(id, '/files/stat'), { query: { path }, signal });

export async function readFile(id: string, path: string, signal?: AbortSignal): Promise<FileContent> {
  const response = await send('GET', at(id, '/files/content'), { query: { path }, signal });
  return { bytes: await response.arrayBuffer(), etag: response.headers.get('etag') };
}

/** Where a browser finds a file: as a download, or inline for png, jpeg, gif and webp. */
export const fileUrl = (id: string, path: string, inline = false) =>
  url(at(id, '/files/content'), { path, inline: inline ? 1 : undefined });

/** `etag` is what the file must have now; null: it must not exist. Errors: 412 `file_changed`, 409 `already_exists`. */
export const writeFile = (id: string, path: string, content: string | Blob, etag: string | null) =>
  request<WrittenFile>('PUT', at(id, '/files/content'), {
    query: { path },
    body: typeof content === 'string' ? new TextEncoder().encode(content) : content,
    headers: etag === null ? { 'If-None-Match': '*' } : { 'If-Match': etag },
  });

export const makeDirectory = (id: string, path: string) =>
  request<void>('POST', at(id, '/files/directories'), { body: { path } });

export const moveFile = (id: string, from: string, to: string) =>
  request<void>('POST', at(id, '/files/move'), { body: { from, to } });

export const deleteFile = (id: string, path: string, recursive = false) =>
  request<void>('DELETE', at(id, '/files'), { query: { path, recursive: recursive || undefined } });

export const querySqlite = (id: string, body: SqliteRequest, signal?: AbortSignal) =>
  request<SqliteRows>('POST', at(id, '/sqlite'), { body, signal });

export const listTerminals = (id: string, signal?: AbortSignal) =>
  request<Terminal[]>('GET', at(id, '/terminals'), { signal });

export const endTerminal = (id: string, pid: number) => request<void>('DELETE', at(id, `/terminals/${pid}`));

/** Address of a terminal's WebSocket; with a pid it reconnects to one. */
export function terminalUrl(id: string, query: { pid?: number; cols?: number; rows?: number; cwd?: string }): string {
  const address = new URL(url(at(id, '/terminal'), query), location.href);
  address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
  return address.href;
}
