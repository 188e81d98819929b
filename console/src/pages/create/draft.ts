// What one has chosen so far, what is asked of the API for it, and what of it outlives a reload. Pure.
import type { NewSandbox, Template } from '../../wire';

export const STEPS = ['gpu', 'image', 'config'] as const;
export type Step = (typeof STEPS)[number];

export interface Pair {
  id: number;
  name: string;
  value: string;
}

export type Unit = 'm' | 'h' | 'd';
export const SECONDS: Record<Unit, number> = { m: 60, h: 3600, d: 86_400 };

export type Preset = '' | 'internet' | 'registries' | 'none';

export interface Draft {
  source: 'template' | 'image';
  /** Alias, id, `alias:tag`, or a snapshot's id. */
  template: string;
  /** An image in a registry. */
  image: string;
  /** User for that registry. The password is never here. */
  user: string;
  /** null: as the template says. */
  cpu: number | null;
  memory: number | null;
  disk: number | null;
  timeout: number | null;
  unit: Unit;
  onTimeout: 'kill' | 'pause';
  keepMemory: boolean;
  /** Minutes. */
  idle: number | null;
  autoResume: boolean;
  name: string;
  labels: Pair[];
  env: Pair[];
  network: Preset;
  /** One in each line. */
  allow: string;
}

export const EMPTY: Draft = {
  source: 'template',
  template: '',
  image: '',
  user: '',
  cpu: null,
  memory: null,
  disk: null,
  timeout: 1,
  unit: 'h',
  onTimeout: 'pause',
  keepMemory: true,
  idle: null,
  autoResume: false,
  name: '',
  labels: [],
  env: [],
  network: '',
  allow: '',
};

let lastId = 0;
export const pair = (name = '', value = ''): Pair => {
  lastId += 1;
  return { id: lastId, name, value };
};

/** For the browser's storage of this tab: values of the environment may be secrets, and stay out. */
export function toStored(draft: Draft): string {
  const env = draft.env.filter((one) => one.name).map((one) => ({ ...one, value: '' }));
  return JSON.stringify({ ...draft, env });
}

/** What was stored, as far as it has the right shape. */
export function fromStored(text: string | null): Draft {
  if (!text) return EMPTY;
  let found: Record<string, unknown>;
  try {
    found = JSON.parse(text);
  } catch {
    return EMPTY;
  }
  if (typeof found !== 'object' || found === null) return EMPTY;
  const draft: Record<string, unknown> = { ...EMPTY };
  for (const [name, value] of Object.entries(EMPTY)) {
    const given = found[name];
    const isNumber = value === null || name === 'timeout';
    if (Array.isArray(value)) draft[name] = pairsOf(given);
    else if (isNumber ? given === null || typeof given === 'number' : typeof given === typeof value)
      draft[name] = given;
  }
  return draft as unknown as Draft;
}

function pairsOf(value: unknown): Pair[] {
  if (!Array.isArray(value)) return [];
  return value
    .filter((one) => typeof one?.name === 'string' && typeof one?.value === 'string')
    .map((one) => pair(one.name, one.value));
}

const number = (text: string | null): number | null => {
  const value = Number(text);
  return text && Number.isInteger(value) && value > 0 ? value : null;
};

/** A link can say what to create: `template`, `image`, `cpu`, `memory`, `disk` and labels. Then it is a new draft. */
export function fromQuery(query: URLSearchParams): Draft | null {
  const template = query.get('template');
  const image = query.get('image');
  if (!template && !image) return null;
  const labels = query.getAll('label').flatMap((text) => {
    const at = text.indexOf('=');
    return at > 0 ? [[text.slice(0, at), text.slice(at + 1)] as const] : [];
  });
  return {
    ...EMPTY,
    source: template ? 'template' : 'image',
    template: template ?? '',
    image: image ?? '',
    cpu: number(query.get('cpu')),
    memory: number(query.get('memory')),
    disk: number(query.get('disk')),
    name: labels.find(([name]) => name === 'name')?.[1] ?? '',
    labels: labels.filter(([name]) => name !== 'name').map(([name, value]) => pair(name, value)),
  };
}

const mapOf = (pairs: readonly Pair[]): Record<string, string> =>
  Object.fromEntries(pairs.filter((one) => one.name.trim()).map((one) => [one.name.trim(), one.value]));

const some = <T extends object>(value: T): T | undefined => (Object.keys(value).length > 0 ? value : undefined);

export const allowed = (draft: Draft): string[] =>
  draft.network === 'none' || draft.network === 'registries'
    ? draft.allow
        .split(/[\s,]+/)
        .map((line) => line.trim())
        .filter(Boolean)
    : [];

export const timeoutOf = (draft: Draft): number | undefined =>
  draft.timeout === null ? undefined : Math.round(draft.timeout * SECONDS[draft.unit]);

/** The body of the creation. What is as the template says is left out. */
export function requestOf(draft: Draft, templateID: string, template?: Template): NewSandbox {
  const other = (value: number | null, usual: number | undefined) =>
    value === null || value === usual ? undefined : value;
  const pauses = draft.onTimeout === 'pause';
  const metadata = { ...(draft.name.trim() ? { name: draft.name.trim() } : {}), ...mapOf(draft.labels) };
  const allowOut = allowed(draft);
  const network = some({
    ...(draft.network ? { preset: draft.network } : {}),
    ...(allowOut.length > 0 ? { allowOut } : {}),
  });
  const body: NewSandbox = {
    templateID,
    timeout: timeoutOf(draft),
    cpuCount: other(draft.cpu, template?.cpuCount),
    memoryMB: other(draft.memory, template?.memoryMB),
    diskSizeMB: other(draft.disk, template?.diskSizeMB),
    autoPause: pauses || undefined,
    autoPauseMemory: pauses && !draft.keepMemory ? false : undefined,
    autoResume: draft.autoResume ? { enabled: true } : undefined,
    idleTimeout: draft.idle === null ? undefined : Math.round(draft.idle * 60),
    metadata: some(metadata),
    envVars: some(mapOf(draft.env)),
    network,
  };
  return JSON.parse(JSON.stringify(body)) as NewSandbox;
}
