// The same creation as a command and as API calls. Pure.
import { curl, quote } from '../../format/snippet';
import type { NewSandbox } from '../../wire';
import { templateNameOf } from './image-name';

/** `2G` for 2048 MiB. */
const size = (mib: number): string => (mib % 1024 === 0 ? `${mib / 1024}G` : String(mib));

/** `1h` for 3600 seconds. */
export function time(seconds: number): string {
  if (seconds > 0 && seconds % 86_400 === 0) return `${seconds / 86_400}d`;
  if (seconds > 0 && seconds % 3600 === 0) return `${seconds / 3600}h`;
  if (seconds > 0 && seconds % 60 === 0) return `${seconds / 60}m`;
  return String(seconds);
}

export interface Source {
  /** An image that becomes a template first. */
  image?: string;
  user?: string;
}

/** Options in pairs, so that each stands in a line of its own. */
function options(body: NewSandbox, files: readonly string[]): string[] {
  const all: string[] = [];
  const add = (flag: string, value?: string | number | null) => {
    if (value !== undefined && value !== null) all.push(value === '' ? flag : `${flag} ${quote(String(value))}`);
  };
  const bytes = (value?: number | null) => (value ? size(value) : undefined);
  const seconds = (value?: number | null) => (value ? time(value) : undefined);
  if (body.templateID !== 'base') add('--template', body.templateID);
  add('--cpu', body.cpuCount);
  add('--memory', bytes(body.memoryMB));
  add('--disk', bytes(body.diskSizeMB));
  for (const [name, value] of Object.entries(body.envVars ?? {})) add('--env', `${name}=${value}`);
  for (const [name, value] of Object.entries(body.metadata ?? {})) add('--metadata', `${name}=${value}`);
  add('--network', body.network?.preset);
  for (const where of body.network?.allowOut ?? []) add('--allow-out', where);
  add('--timeout', seconds(body.timeout));
  if (body.autoPause) add('--auto-pause', body.autoPauseMemory === false ? 'disk' : '');
  if (body.autoResume?.enabled) add('--auto-resume', '');
  add('--idle', seconds(body.idleTimeout));
  if (files.length > 0) all.push(`--upload ${files.map(quote).join(' ')}`);
  return all;
}

const lines = (words: string[]): string => {
  const one = words.join(' ');
  return one.length <= 44 ? one : words.join(' \\\n  ');
};

export function cliOf(body: NewSandbox, source: Source = {}, files: readonly string[] = []): string {
  const create = lines(['cabana create', ...options(body, files)]);
  if (!source.image) return create;
  const pull = [`cabana template pull ${quote(source.image)}`];
  if (source.user) {
    pull.unshift('CABANA_REGISTRY_PASSWORD="$REGISTRY_PASSWORD"');
    pull.push(`--registry-user ${quote(source.user)}`);
  }
  return `${lines(pull)} &&\n${create}`;
}

export function curlOf(
  body: NewSandbox,
  source: Source = {},
  files: readonly string[] = [],
  origin: string = location.origin,
): string {
  let create = curl('POST', '/v2/sandboxes', body, origin);
  if (files.length > 0) {
    const parts = [
      `curl ${quote(`${origin}/v2/sandboxes`)}`,
      '-H "X-API-KEY: $CABANA_API_KEY"',
      `--form-string ${quote(`sandbox=${JSON.stringify(body)}`)}`,
      ...files.map((name) => `-F ${quote(`file=@"${name.replace(/(["\\])/g, '\\$1')}"`)}`),
    ];
    create = parts.join(' \\\n  ');
  }
  return source.image ? `${buildCurl(source, origin)}\n\n${create}` : create;
}

/** Three calls: name the build, start it, and look until it is ready. */
function buildCurl({ image = '', user }: Source, origin: string): string {
  const start = { dockerfile: `FROM ${image}\n` };
  const key = '-H "X-API-KEY: $CABANA_API_KEY"';
  const json = "-H 'Content-Type: application/json'";
  // The password is put in by the shell, and never shown here.
  const registry = `,"fromImageRegistry":{"type":"registry","username":${JSON.stringify(user)},"password":$password}}`;
  const data = user
    ? `"$(jq -nc --arg password "$REGISTRY_PASSWORD" ${quote(JSON.stringify(start).slice(0, -1) + registry)})"`
    : quote(JSON.stringify(start));
  return [
    `build=$(${curl('POST', '/v3/templates', { name: templateNameOf(image) }, origin)})`,
    'template=$(jq -r .templateID <<<"$build") build=$(jq -r .buildID <<<"$build")',
    [`curl -X POST ${quote(origin)}"/v2/templates/$template/builds/$build"`, key, json, `-d ${data}`].join(' \\\n  '),
    [
      `until curl -s ${quote(origin)}"/templates/$template/builds/$build/status"`,
      `${key} | jq -e '.status == "ready"'; do sleep 1; done`,
    ].join(' \\\n  '),
  ].join('\n');
}
