// What is typed in the form of a provider, and what is sent. Pure.
import type { ModelProvider, NewModelProvider } from '../../api/chat-types';

export interface Draft {
  name: string;
  kind: 'openai' | 'anthropic';
  baseUrl: string;
  key: string;
  /** A name in each line. */
  models: string;
}

export const MOST_MODELS = 200;

export const EMPTY: Draft = { name: 'anthropic', kind: 'anthropic', baseUrl: '', key: '', models: '' };

export const draftOf = (provider: ModelProvider): Draft => ({
  name: provider.name,
  kind: provider.kind === 'anthropic' ? 'anthropic' : 'openai',
  baseUrl: provider.baseUrl ?? '',
  key: '',
  models: provider.models.join('\n'),
});

export const modelsOf = (text: string): string[] => [
  ...new Set(
    text
      .split(/[\n,]/)
      .map((name) => name.trim())
      .filter(Boolean),
  ),
];

export type Problem = 'name' | 'url' | 'models';

export function problemsOf(draft: Draft): Set<Problem> {
  const found = new Set<Problem>();
  if (!/^[a-z0-9-]{1,32}$/.test(draft.name) || draft.name === 'demo') found.add('name');
  if (draft.baseUrl && !/^https:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/.test(draft.baseUrl)) found.add('url');
  const models = modelsOf(draft.models);
  if (models.length > MOST_MODELS || models.some((name) => !/^[!-~]{1,167}$/.test(name))) found.add('models');
  return found;
}

export function bodyOf(draft: Draft): NewModelProvider {
  const models = modelsOf(draft.models);
  return {
    name: draft.name,
    kind: draft.kind,
    ...(draft.baseUrl ? { baseUrl: draft.baseUrl } : {}),
    ...(draft.key ? { key: draft.key } : {}),
    ...(models.length > 0 ? { models } : {}),
  };
}

/** The lines of cabana.toml that say the same; the key stays in the environment. */
export function tomlOf(draft: Draft): string {
  const { name, kind, baseUrl } = draft;
  const models = modelsOf(draft.models);
  return [
    `[models.providers.${name || 'NAME'}]`,
    `kind = ${JSON.stringify(kind)}`,
    ...(baseUrl ? [`base_url = ${JSON.stringify(baseUrl)}`] : []),
    ...(models.length > 0 ? [`models = ${JSON.stringify(models)}`] : []),
  ].join('\n');
}

export const variableOf = (name: string): string =>
  `CABANA_MODELS_${(name || 'NAME').toUpperCase().replaceAll('-', '_')}_KEY`;
