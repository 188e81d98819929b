// What the form of a new template holds, what is wrong with it, and what it asks of the server. Pure.
import type { BuildStart, NewTemplate } from '../../api';
import { cli, curl } from '../../format/snippet';
import { NAME, needsFiles, problemOf } from './dockerfile';
import { form } from './strings';

export type Kind = 'dockerfile' | 'image' | 'sandbox';
export const KINDS: readonly Kind[] = ['dockerfile', 'image', 'sandbox'];

export interface Draft {
  name: string;
  dockerfile: string;
  image: string;
  user: string;
  password: string;
  sandbox: string;
  tags: string;
  cpuCount: number | null;
  memoryMB: number | null;
  diskMB: number | null;
  startCmd: string;
  readyCmd: string;
  force: boolean;
}

export const EMPTY: Draft = {
  name: '',
  dockerfile: 'FROM base\n\nUSER user\nWORKDIR /home/user\n',
  image: '',
  user: '',
  password: '',
  sandbox: '',
  tags: '',
  cpuCount: null,
  memoryMB: null,
  diskMB: null,
  startCmd: '',
  readyCmd: '',
  force: false,
};

export type Errors = Partial<Record<'name' | 'dockerfile' | 'image' | 'sandbox' | 'tags', string>>;

const tagList = (text: string): string[] =>
  text
    .split(',')
    .map((tag) => tag.trim())
    .filter(Boolean);

/** Empty fields are in it with an empty text: they keep the button off, without a message. */
export function errorsOf(kind: Kind, draft: Draft): Errors {
  const errors: Errors = {};
  if (!NAME.test(draft.name)) errors.name = draft.name ? form.nameError : '';
  if (tagList(draft.tags).some((tag) => !/^[\w.-]{1,128}$/.test(tag))) errors.tags = form.tagsError;
  if (kind === 'dockerfile') {
    const problem = problemOf(draft.dockerfile);
    if (problem) errors.dockerfile = { empty: '', large: form.tooLarge, from: form.needsFrom }[problem];
    else if (needsFiles(draft.dockerfile)) errors.dockerfile = form.needsFiles;
  }
  if (kind === 'image' && (!draft.image.trim() || /\s/.test(draft.image.trim()))) {
    errors.image = draft.image.trim() ? form.imageError : '';
  }
  if (kind === 'sandbox' && !draft.sandbox) errors.sandbox = '';
  return errors;
}

export function orderOf(draft: Draft): NewTemplate {
  const tags = tagList(draft.tags);
  return {
    name: draft.name,
    ...(tags.length > 0 ? { tags } : {}),
    ...(draft.cpuCount ? { cpuCount: draft.cpuCount } : {}),
    ...(draft.memoryMB ? { memoryMB: draft.memoryMB } : {}),
    ...(draft.diskMB ? { minFreeDiskMb: draft.diskMB } : {}),
  };
}

export function startOf(kind: Kind, draft: Draft): BuildStart {
  const registry = draft.user ? { type: 'registry' as const, username: draft.user, password: draft.password } : null;
  return {
    ...(kind === 'dockerfile' ? { dockerfile: draft.dockerfile } : { fromImage: draft.image.trim() }),
    ...(kind === 'image' && registry ? { fromImageRegistry: registry } : {}),
    ...(draft.startCmd.trim() ? { startCmd: draft.startCmd.trim() } : {}),
    ...(draft.readyCmd.trim() ? { readyCmd: draft.readyCmd.trim() } : {}),
    ...(draft.force ? { force: true } : {}),
  };
}

export const commitOf = (draft: Draft) => {
  const tags = tagList(draft.tags);
  return { alias: draft.name, ...(tags.length > 0 ? { tags } : {}) };
};

/** The same with the command line and by hand. The password is in neither. */
export function snippetsOf(kind: Kind, draft: Draft): { label: string; text: string }[] {
  const name = draft.name || 'NAME';
  const tags = tagList(draft.tags).flatMap((tag) => ['--tag', tag]);
  if (kind === 'sandbox') {
    const id = draft.sandbox || 'SANDBOX';
    return [
      { label: 'CLI', text: cli('commit', id, name, ...tags) },
      { label: 'API', text: curl('POST', `/sandboxes/${id}/commit`, { ...commitOf(draft), alias: name }) },
    ];
  }
  const more = [
    '--name',
    name,
    ...tags,
    ...(draft.cpuCount ? ['--cpu', draft.cpuCount] : []),
    ...(draft.memoryMB ? ['--memory', draft.memoryMB] : []),
    ...(draft.diskMB ? ['--disk', draft.diskMB] : []),
    ...(draft.startCmd.trim() ? ['--start', draft.startCmd.trim()] : []),
    ...(draft.readyCmd.trim() ? ['--ready', draft.readyCmd.trim()] : []),
    ...(draft.user && kind === 'image' ? ['--registry-user', draft.user] : []),
    draft.force && kind === 'dockerfile' && '--no-cache',
  ];
  const { dockerfile: _, fromImageRegistry: registry, ...start } = startOf(kind, draft);
  const second = { ...start, ...(registry ? { fromImageRegistry: { ...registry, password: '…' } } : {}) };
  const path = '/v2/templates/$TEMPLATE/builds/$BUILD';
  const origin = curl('GET', '').split(' ')[1] ?? '';
  const api =
    kind === 'dockerfile'
      ? `jq -Rs '. as $file | ${JSON.stringify(second).replaceAll("'", `'\\''`)} + {dockerfile: $file}' Dockerfile |
  curl -X POST "${origin}${path}" \\
  -H "X-API-KEY: $CABANA_API_KEY" \\
  -H 'Content-Type: application/json' -d @-`
      : curl('POST', path, second).replace(/'(http[^']*)'/, '"$1"');
  return [
    {
      label: 'CLI',
      text:
        kind === 'dockerfile'
          ? cli('template', 'build', '.', ...more)
          : cli('template', 'pull', draft.image || 'IMAGE', ...more),
    },
    {
      label: 'API',
      text: `${curl('POST', '/v3/templates', { ...orderOf(draft), name })}\n# its answer has templateID and buildID\n${api}`,
    },
  ];
}
