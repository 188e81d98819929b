// Which field is wrong, by what one typed or by what the server said. Pure.
import type { Draft, Step } from './draft';
import { timeoutOf } from './draft';
import { imageProblem } from './image-name';
import { strings } from './strings';

export type Field =
  | 'template'
  | 'image'
  | 'cpu'
  | 'memory'
  | 'disk'
  | 'timeout'
  | 'idle'
  | 'autoResume'
  | 'labels'
  | 'env'
  | 'network'
  | 'files';

export type Problems = Partial<Record<Field, string>>;

export const stepOf = (field: Field): Step => (field === 'template' || field === 'image' ? 'image' : 'config');

const MOST_IDLE_MINUTES = 30 * 24 * 60;

function duplicate(names: readonly string[]): string | undefined {
  return names.find((name, i) => name && names.indexOf(name) < i);
}

/** What the server would refuse, as far as the console knows it. */
export function problemsOf(draft: Draft, most: { hours?: number } = {}): Problems {
  const problems: Problems = {};
  if (draft.source === 'template' && !draft.template) problems.template = strings.wrong.noTemplate;
  const image = draft.source === 'image' ? imageProblem(draft.image.trim()) : null;
  if (image) problems.image = image;
  const timeout = timeoutOf(draft);
  if (timeout === undefined || timeout < 1) problems.timeout = strings.wrong.timeout;
  else if (most.hours && timeout > most.hours * 3600) problems.timeout = strings.wrong.tooLong(most.hours);
  if (draft.idle !== null && (draft.idle * 60 < 1 || draft.idle > MOST_IDLE_MINUTES))
    problems.idle = strings.wrong.idle;
  if (draft.autoResume && draft.onTimeout === 'pause' && !draft.keepMemory) {
    problems.autoResume = strings.wrong.autoResume;
  }
  const env = draft.env.map((one) => one.name.trim());
  const twice = duplicate(env);
  if (draft.env.some((one) => !one.name.trim() && one.value)) problems.env = strings.wrong.noName;
  else if (env.some((name) => name.includes('='))) problems.env = strings.wrong.envName;
  else if (twice) problems.env = strings.wrong.twice(twice);
  const labels = draft.labels.map((one) => one.name.trim());
  const again = duplicate(draft.name.trim() ? ['name', ...labels] : labels);
  if (draft.labels.some((one) => !one.name.trim() && one.value)) problems.labels = strings.wrong.noName;
  else if (again) problems.labels = strings.wrong.twice(again);
  return problems;
}

const PATTERNS: [RegExp, Field][] = [
  [/\bcpuCount\b/, 'cpu'],
  [/\bmemoryMB\b/, 'memory'],
  [/\bdiskSizeMB\b/, 'disk'],
  [/\bidleTimeout\b/, 'idle'],
  [/\bautoResume\b|\bautoPause/, 'autoResume'],
  [/^timeout\b/i, 'timeout'],
  [/^metadata\b/, 'labels'],
  [/^envVars\b/, 'env'],
  [/^network\b|\ballowOut\b|\bdenyOut\b|\bpreset\b/, 'network'],
  [/\bfiles?\b.*\b(name|large|limit|upload)|\bupload/i, 'files'],
];

/** The field that an error of the server is about; null: none of them. */
export function fieldOf(error: { error_code?: string; message?: string }, source: Draft['source']): Field | null {
  if (/^(template_not_found|build_failed|build_not_found)$/.test(error.error_code ?? '')) return source;
  const message = error.message ?? '';
  return PATTERNS.find(([pattern]) => pattern.test(message))?.[1] ?? null;
}
