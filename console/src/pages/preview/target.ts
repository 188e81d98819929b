// Which service an address is of. The address comes from a link that anyone can write, so that it is read and never followed.

import { isWeb } from '../../format/service';
import type { Service } from '../../wire';

export interface Target {
  sandboxId: string;
  port: number;
  /** Path and query. */
  path: string;
  /** What follows the first label of the host, with the port where there is one. */
  domain: string;
}

const MOST = 4096;
const MOST_PATH = 2048;
const LABEL = /^([0-9]{1,5})-([a-z0-9]{1,64})(?:-[a-z0-9-]*)?$/;

/** The target of `https://PORT-ID.DOMAIN/path`; null if the text is no such address. */
export function parseTarget(text: string | null | undefined): Target | null {
  // A browser would leave out blanks and control characters, and so make another address of the text.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  if (!text || text.length > MOST || !isWeb(text) || /[\u0000-\u0020\u007f\\]/.test(text)) return null;
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return null;
  }
  if ((url.protocol !== 'http:' && url.protocol !== 'https:') || url.username || url.password) return null;
  const dot = url.host.indexOf('.');
  const match = dot < 0 ? null : LABEL.exec(url.host.slice(0, dot));
  const port = Number(match?.[1]);
  if (!match?.[2] || port < 1 || port > 65535) return null;
  const path = url.pathname + url.search;
  return {
    sandboxId: match[2],
    port,
    path: path.length > MOST_PATH || path.startsWith('//') ? '/' : path,
    domain: url.host.slice(dot + 1),
  };
}

/** Loopback has many ports: a tunnel has another one than the server. */
const withoutLocalPort = (domain: string): string => domain.replace(/^localhost:\d+$/, 'localhost');

/** The service at a target, if its own address is below the same domain. */
export function serviceAt(target: Target, services: readonly Service[]): Service | null {
  const service = services.find((one) => one.port === target.port && one.sandboxId === target.sandboxId);
  const own = parseTarget(service?.url);
  return service && own && withoutLocalPort(own.domain) === withoutLocalPort(target.domain) ? service : null;
}

const WINDOW_MS = 30_000;
const TURNS = 3;

/**
 * Times of going to one address, with a new one; null if it comes back again and again: a browser that does not keep the
 * preview's cookie would be sent round in circles.
 */
export function nextTurn(stored: string | null, now: number): number[] | null {
  let times: unknown;
  try {
    times = JSON.parse(stored ?? '[]');
  } catch {
    times = [];
  }
  const recent = (Array.isArray(times) ? times : []).filter(
    (time): time is number => typeof time === 'number' && time <= now && now - time < WINDOW_MS,
  );
  return recent.length >= TURNS ? null : [...recent, now];
}
