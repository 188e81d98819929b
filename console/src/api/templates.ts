// Templates, their builds and their tags.
import type {
  AssignedTags,
  BuildInfo,
  BuildLogPage,
  BuildStart,
  CuratedTemplate,
  NewTemplate,
  RequestedBuild,
  TagAssignmentPage,
  TagGroupPage,
  Template,
  TemplateNames,
  TemplateTag,
  TemplateUpdate,
  TemplateWithBuilds,
} from '../wire';
import { page, pages, part, request } from './client';

const at = (id: string, rest = '') => `/templates/${part(id)}${rest}`;

export const listTemplates = (query: { limit?: number; nextToken?: string } = {}, signal?: AbortSignal) =>
  page<Template>('/v2/templates', { query, signal });

export const listAllTemplates = (signal?: AbortSignal, most = 5_000) =>
  pages((nextToken) => listTemplates({ nextToken }, signal), most);

export const listCurated = (signal?: AbortSignal) =>
  request<CuratedTemplate[]>('GET', '/templates/gallery', { signal });

export const buildCurated = (name: string) => request<CuratedTemplate>('POST', `/templates/gallery/${part(name)}`);

export const listDefaultTemplates = (signal?: AbortSignal) =>
  request<Template[]>('GET', '/default-templates', { signal });

export const getTemplate = (id: string, signal?: AbortSignal) => request<TemplateWithBuilds>('GET', at(id), { signal });

export const updateTemplate = (id: string, body: TemplateUpdate) =>
  request<TemplateNames>('PATCH', `/v2/templates/${part(id)}`, { body });

export const deleteTemplate = (id: string) => request<void>('DELETE', at(id));

/** The first of two steps of a build: names it. `startBuild` says what to build. */
export const requestBuild = (body: NewTemplate) => request<RequestedBuild>('POST', '/v3/templates', { body });

export const startBuild = (templateID: string, buildID: string, body: BuildStart) =>
  request<void>('POST', `/v2/templates/${part(templateID)}/builds/${part(buildID)}`, { body });

export const cancelBuild = (templateID: string, buildID: string) =>
  request<void>('DELETE', `/v2/templates/${part(templateID)}/builds/${part(buildID)}`);

export const getBuild = (
  templateID: string,
  buildID: string,
  query: { logsOffset?: number; limit?: number; level?: string } = {},
  signal?: AbortSignal,
) => request<BuildInfo>('GET', at(templateID, `/builds/${part(buildID)}/status`), { query, signal });

export const buildLogs = (
  templateID: string,
  buildID: string,
  query: { cursor?: number; limit?: number; direction?: 'forward' | 'backward'; level?: string } = {},
  signal?: AbortSignal,
) => request<BuildLogPage>('GET', at(templateID, `/builds/${part(buildID)}/logs`), { query, signal });

export const listTags = (id: string, signal?: AbortSignal) =>
  request<TemplateTag[]>('GET', at(id, '/tags'), { signal });

/** Tags with what they pointed to before. */
export const tagGroups = (
  id: string,
  query: { assignmentLimit?: number; tagsLimit?: number; tagsCursor?: string; search?: string; sort?: string } = {},
  signal?: AbortSignal,
) => request<TagGroupPage>('GET', at(id, '/tags/groups'), { query, signal });

export const tagAssignments = (
  id: string,
  tag: string,
  query: { limit?: number; cursor?: string } = {},
  signal?: AbortSignal,
) => request<TagAssignmentPage>('GET', at(id, `/tags/${part(tag)}/assignments`), { query, signal });

/** Moves tags to a build: `target` is `alias`, `alias:tag` or `alias:<build id>`. */
export const assignTags = (target: string, tags: string[]) =>
  request<AssignedTags>('POST', '/templates/tags', { body: { target, tags } });

export const removeTags = (name: string, tags: string[]) =>
  request<void>('DELETE', '/templates/tags', { body: { name, tags } });
