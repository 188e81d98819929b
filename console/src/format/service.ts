// What a service does, for people, and what it can be called.
import type { Access, Service } from '../wire';
import type { State, Status } from './sandbox';
import { duration, relative } from './time';

const STATES: Record<Service['state'], [State, string]> = {
  starting: ['creating', 'Starting'],
  running: ['running', 'Running'],
  suspended: ['suspended', 'Suspended'],
  stopped: ['stopped', 'Stopped'],
  error: ['failed', 'Error'],
};

/** Shape, word and what follows it. Why it failed is not in it: that may be long. */
export function serviceStatus(service: Pick<Service, 'state' | 'since'>, now: number = Date.now()): Status {
  const [state, word] = STATES[service.state] ?? ['stopped', String(service.state)];
  const seconds = Math.floor((now - Date.parse(service.since)) / 1000);
  if (state === 'running') return { state, word, detail: duration(Math.max(1, seconds)) };
  // A sleeping service is as old as its start, which says nothing of its sleep.
  if (state === 'creating' || state === 'suspended') return { state, word, detail: null };
  return { state, word, detail: relative(service.since, now) };
}

export const ACCESS_WORDS: Record<Access, string> = { private: 'Private', link: 'Link', public: 'Public' };

/** Whether there is something to stop. */
export const isUp = (service: Pick<Service, 'state'>): boolean =>
  service.state === 'running' || service.state === 'starting';

/** Only addresses of the web are followed, whatever the server says. */
export const isWeb = (url: string | null | undefined): url is string =>
  typeof url === 'string' && /^https?:\/\//i.test(url);

/** As in crates/types/src/service.rs. */
export const isServiceName = (text: string): boolean => /^[a-z0-9][a-z0-9_-]{0,39}$/.test(text);

const RESERVED = new Set(
  'api sandbox www console app admin auth login mail static cdn docs status live mcp ns'.split(' '),
);

/** Whether a text can be the name of a public service below the domain. As in crates/types/src/service.rs. */
export function isSlug(text: string): boolean {
  if (!/^[a-z](?:-?[a-z0-9])*$/.test(text) || text.length < 3 || text.length > 40) return false;
  return !RESERVED.has(text) && !/^p[a-z2-7]{26}$/.test(text);
}
