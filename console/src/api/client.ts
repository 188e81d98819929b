// Requests to the API: same origin, session cookie, and the headers that the server wants of a browser.
import { ApiError, errorOf, networkError } from './error';

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface RequestOptions {
  query?: Query;
  /** Sent as JSON; a Blob or ArrayBuffer as bytes; FormData as a form. */
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** A 401 is an answer here, and not the end of the session. */
  anonymous?: boolean;
}

let team: string | null = null;
let signedOut: () => void = () => {};

/** The team that changes are for. Set when the session is known. */
export function setTeam(id: string | null): void {
  team = id;
}

/** What to do when the server says that the session is over. */
export function onSignedOut(listener: () => void): void {
  signedOut = listener;
}

/** Tells the console that the session is over, as a 401 does. */
export function endSession(): void {
  signedOut();
}

export function url(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

/** One part of a path. */
export const part = encodeURIComponent;

/** Headers that a request of this method needs beside its content type. */
export function teamHeaders(method: string): Record<string, string> {
  return method === 'GET' || method === 'HEAD' || !team ? {} : { 'X-Cabana-Team': team };
}

export async function send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
  const { query, body, signal, anonymous } = options;
  const headers: Record<string, string> = { ...teamHeaders(method), ...options.headers };
  let payload: BodyInit | undefined;
  if (body instanceof FormData) {
    payload = body;
  } else if (body instanceof Blob || body instanceof ArrayBuffer || ArrayBuffer.isView(body)) {
    headers['Content-Type'] = 'application/octet-stream';
    payload = body as BodyInit;
  } else if (body !== undefined) {
    headers['Content-Type'] = 'application/json';
    payload = JSON.stringify(body);
  }
  let response: Response;
  try {
    response = await fetch(url(path, query), { method, headers, body: payload, signal, credentials: 'same-origin' });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw networkError(cause);
  }
  if (response.ok) return response;
  const error = errorOf(response.status, response.headers, await response.text().catch(() => ''));
  if (error.code === 401 && !anonymous) signedOut();
  throw error;
}

export async function request<T>(method: string, path: string, options?: RequestOptions): Promise<T> {
  return json<T>(await send(method, path, options));
}

/** The body of an answer; undefined where there is none. */
export async function json<T>(response: Response): Promise<T> {
  const text = await response.text();
  if (!text) return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new ApiError({
      code: response.status,
      error_code: 'not_json',
      message: 'The answer is not from a Cabana server.',
      requestId: response.headers.get('x-request-id'),
    });
  }
}

/** A page of a list. */
export interface Page<T> {
  items: T[];
  next: string | null;
}

export async function page<T>(path: string, options?: RequestOptions): Promise<Page<T>> {
  const response = await send('GET', path, options);
  return { items: (await json<T[]>(response)) ?? [], next: response.headers.get('x-next-token') };
}

/** All pages of a list, up to a number of rows. */
export async function pages<T>(
  fetchPage: (next: string | undefined) => Promise<Page<T>>,
  most: number,
): Promise<Page<T>> {
  const items: T[] = [];
  let next: string | undefined;
  do {
    const got = await fetchPage(next);
    items.push(...got.items);
    next = got.next ?? undefined;
  } while (next && items.length < most);
  return { items, next: next ?? null };
}
