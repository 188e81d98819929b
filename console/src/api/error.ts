// The one error of the API client. What went wrong on the way to the server has code 0.
import type { ErrorBody } from '../wire';

export class ApiError extends Error {
  /** HTTP status; 0 if there was no answer. */
  readonly code: number;
  /** The error code of the API, such as `sandbox_not_found`; `network` if there was no answer. */
  readonly error_code: string;
  /** What the server calls this request in its log. */
  readonly requestId: string | null;
  /** Seconds to wait before the next try, where the server says so. */
  readonly retryAfter: number | null;
  /** The answer's body, for errors that carry more. */
  readonly body: unknown;

  constructor(fields: {
    code: number;
    error_code: string;
    message: string;
    requestId?: string | null;
    retryAfter?: number | null;
    body?: unknown;
  }) {
    super(fields.message);
    this.name = 'ApiError';
    this.code = fields.code;
    this.error_code = fields.error_code;
    this.requestId = fields.requestId ?? null;
    this.retryAfter = fields.retryAfter ?? null;
    this.body = fields.body;
  }
}

export function isApiError(error: unknown, error_code?: string): error is ApiError {
  return error instanceof ApiError && (error_code === undefined || error.error_code === error_code);
}

/** Seconds of a `Retry-After` header: a number, or a date. */
export function retryAfter(value: string | null, now = Date.now()): number | null {
  if (!value) return null;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, Math.ceil((at - now) / 1000));
}

/** The error of an answer, from its status, headers and body text. */
export function errorOf(status: number, headers: { get(name: string): string | null }, text: string): ApiError {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = text;
  }
  const known = (typeof body === 'object' && body !== null ? body : {}) as Partial<ErrorBody>;
  return new ApiError({
    code: status,
    error_code: typeof known.error_code === 'string' ? known.error_code : `http_${status}`,
    message:
      typeof known.message === 'string' && known.message ? known.message : `The server answered with status ${status}.`,
    requestId: headers.get('x-request-id'),
    retryAfter: retryAfter(headers.get('retry-after')),
    body,
  });
}

export function networkError(cause: unknown): ApiError {
  return new ApiError({ code: 0, error_code: 'network', message: 'The server does not answer.', body: cause });
}
