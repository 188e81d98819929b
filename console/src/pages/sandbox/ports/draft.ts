// What the dialog that starts a service holds, what is wrong with it, and what becomes of it. Pure.

import { isServiceName, isSlug } from '../../../format/service';
import { cli } from '../../../format/snippet';
import type { Access, NewService, Service, ServiceUpdate } from '../../../wire';

export interface Draft {
  name: string;
  command: string;
  port: number | null;
  cwd: string;
  env: readonly { name: string; value: string }[];
  access: Access;
}

export type Field = 'name' | 'command' | 'port' | 'env';

/** Fields that cannot be sent as they are. */
export function problems(draft: Draft): Set<Field> {
  const wrong = new Set<Field>();
  if (!isServiceName(draft.name.trim())) wrong.add('name');
  if (!draft.command.trim()) wrong.add('command');
  if (draft.port !== null && !(Number.isInteger(draft.port) && draft.port >= 1 && draft.port <= 65535)) {
    wrong.add('port');
  }
  const names = given(draft).map((one) => one.name.trim());
  if (names.some((name) => !/^[A-Za-z_]\w*$/.test(name)) || new Set(names).size !== names.length) wrong.add('env');
  return wrong;
}

const given = (draft: Draft) => draft.env.filter((one) => one.name.trim() || one.value);

/** `kept`: the access of the service that is replaced, which stays unless another one is chosen. */
export function bodyOf(draft: Draft, kept: Access = 'private'): NewService {
  const env = given(draft).map((one) => [one.name.trim(), one.value] as const);
  return {
    name: draft.name.trim(),
    command: draft.command.trim(),
    ...(draft.port === null ? {} : { port: draft.port }),
    ...(draft.cwd.trim() ? { cwd: draft.cwd.trim() } : {}),
    ...(env.length > 0 ? { env: Object.fromEntries(env) } : {}),
    ...(draft.access === kept ? {} : { access: draft.access }),
  };
}

/** The same as a command. */
export function startCommand(sandboxId: string, body: NewService): string {
  const env = Object.entries(body.env ?? {}).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
  const option = (name: string, value: string | number | null | undefined) =>
    value === undefined || value === null ? [] : [name, value];
  return cli(
    'service',
    'start',
    sandboxId,
    ...(body.name === 'web' ? [] : option('--name', body.name)),
    ...option('--port', body.port),
    ...option('--cwd', body.cwd),
    ...env,
    ...(body.access === 'public' ? ['--public'] : []),
    '--',
    body.command,
  );
}

export interface Settings {
  access: Access;
  slug: string;
  onWake: Service['onWake'];
  alwaysOn: boolean;
  hostMode: Service['hostMode'];
  bridge: boolean;
}

export const settingsOf = (service: Service): Settings => ({
  access: service.access,
  slug: service.slug ?? '',
  onWake: service.onWake,
  alwaysOn: service.alwaysOn,
  hostMode: service.hostMode,
  bridge: service.bridge,
});

export const isSlugWrong = (settings: Settings): boolean =>
  settings.access === 'public' && settings.slug.trim() !== '' && !isSlug(settings.slug.trim());

/** What differs. A service that is not public has no name below the domain. */
export function changes(service: Service, wanted: Settings): ServiceUpdate {
  const now = settingsOf(service);
  const next = { ...wanted, slug: wanted.access === 'public' ? wanted.slug.trim() : '' };
  const update: ServiceUpdate = {};
  if (next.access !== now.access) update.access = next.access;
  if (next.slug !== now.slug) update.slug = next.slug;
  if (next.onWake !== now.onWake) update.onWake = next.onWake;
  if (next.alwaysOn !== now.alwaysOn) update.alwaysOn = next.alwaysOn;
  if (next.hostMode !== now.hostMode) update.hostMode = next.hostMode;
  if (next.bridge !== now.bridge) update.bridge = next.bridge;
  return update;
}

/** A name for the service of a port, from the process that listens there. */
export function nameFor(process: string | null | undefined, taken: readonly string[]): string {
  const word = (process ?? '')
    .toLowerCase()
    .replace(/[^a-z0-9_-]/g, '')
    .replace(/^[-_]+/, '')
    .slice(0, 36);
  const base = !taken.includes('web') ? 'web' : word || 'web';
  if (!taken.includes(base)) return base;
  for (let i = 2; ; i += 1) if (!taken.includes(`${base}-${i}`)) return `${base}-${i}`;
}
