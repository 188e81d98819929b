// What react-query caches, under which key. The first part of a key is what the live socket invalidates.
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { getSession, listSessions } from './auth';
import {
  type ChatFilter,
  chatExposure,
  listAgents,
  listAttachments,
  listChats,
  listCheckpoints,
  listModels,
  listShares,
} from './chats';
import { listFiles, listTerminals, statFile } from './files';
import { listKeys } from './keys';
import { getQuotas } from './quotas';
import {
  type EventQuery,
  getNetwork,
  getQuota,
  getSandbox,
  getTombstone,
  listAllSandboxes,
  listEvents,
  listPorts,
  type SandboxFilter,
  sandboxEvents,
  sandboxMetrics,
} from './sandboxes';
import { checkServer, getDoctor, getStatus } from './server';
import { getService, listLinks, listServices } from './services';
import { listSnapshots } from './snapshots';
import { getBuild, getTemplate, listAllTemplates, listCurated, listTags, tagGroups } from './templates';
import { getSandboxUsage, getUsage, getWallet, getWalletEntries, type UsageAsked } from './usage';
import { listDeliveries, listWebhooks } from './webhooks';

const MINUTE = 60_000;

export const sessionQuery = () =>
  queryOptions({
    queryKey: ['session'],
    queryFn: ({ signal }) => getSession(signal),
    staleTime: 5 * MINUTE,
    retry: false,
  });

export const sessionsQuery = () =>
  queryOptions({ queryKey: ['sessions'], queryFn: ({ signal }) => listSessions(signal) });

/** All rows that match, in one list. */
export const sandboxesQuery = (filter: SandboxFilter = {}) =>
  queryOptions({
    queryKey: ['sandboxes', filter],
    queryFn: ({ signal }) => listAllSandboxes(filter, signal),
    placeholderData: keepPreviousData,
  });

export const sandboxQuery = (id: string) =>
  queryOptions({ queryKey: ['sandbox', id], queryFn: ({ signal }) => getSandbox(id, signal) });

export const tombstoneQuery = (id: string) =>
  queryOptions({ queryKey: ['sandbox', id, 'tombstone'], queryFn: ({ signal }) => getTombstone(id, signal) });

export const sandboxEventsQuery = (id: string, query: EventQuery = {}) =>
  queryOptions({
    queryKey: ['sandbox', id, 'events', query],
    queryFn: ({ signal }) => sandboxEvents(id, query, signal),
  });

export const eventsQuery = (query: EventQuery = {}) =>
  queryOptions({ queryKey: ['events', query], queryFn: ({ signal }) => listEvents(query, signal) });

/** `minutes` back from now. */
export const metricsQuery = (id: string, minutes: number) =>
  queryOptions({
    queryKey: ['metrics', id, minutes],
    queryFn: ({ signal }) => sandboxMetrics(id, { start: Math.floor(Date.now() / 1000) - minutes * 60 }, signal),
  });

export const networkQuery = (id: string) =>
  queryOptions({ queryKey: ['network', id], queryFn: ({ signal }) => getNetwork(id, signal) });

export const portsQuery = (id: string) =>
  queryOptions({ queryKey: ['ports', id], queryFn: ({ signal }) => listPorts(id, signal) });

export const servicesQuery = (sandboxId: string) =>
  queryOptions({ queryKey: ['services', sandboxId], queryFn: ({ signal }) => listServices(sandboxId, signal) });

export const serviceQuery = (id: string) =>
  queryOptions({ queryKey: ['service', id], queryFn: ({ signal }) => getService(id, signal) });

export const sharesQuery = (chatId: string) =>
  queryOptions({ queryKey: ['chat', chatId, 'shares'], queryFn: ({ signal }) => listShares(chatId, signal) });

export const exposureQuery = (chatId: string, toolDetails: boolean) =>
  queryOptions({
    queryKey: ['chat', chatId, 'exposure', toolDetails],
    queryFn: ({ signal }) => chatExposure(chatId, toolDetails, signal),
    placeholderData: keepPreviousData,
  });

export const linksQuery = (serviceId: string) =>
  queryOptions({ queryKey: ['service', serviceId, 'links'], queryFn: ({ signal }) => listLinks(serviceId, signal) });

export const filesQuery = (id: string, path: string, hidden = false) =>
  queryOptions({
    queryKey: ['files', id, path, hidden],
    queryFn: ({ signal }) => listFiles(id, path, hidden, signal),
  });

export const fileStatQuery = (id: string, path: string) =>
  queryOptions({ queryKey: ['file', id, path], queryFn: ({ signal }) => statFile(id, path, signal) });

export const terminalsQuery = (id: string) =>
  queryOptions({ queryKey: ['terminals', id], queryFn: ({ signal }) => listTerminals(id, signal) });

export const snapshotsQuery = (query: { sandboxID?: string; limit?: number; nextToken?: string } = {}) =>
  queryOptions({ queryKey: ['snapshots', query], queryFn: ({ signal }) => listSnapshots(query, signal) });

/** The templates that the server can build. Under the key of templates: their states change with these. */
export const curatedQuery = () =>
  queryOptions({ queryKey: ['templates', 'gallery'], queryFn: ({ signal }) => listCurated(signal) });

export const templatesQuery = () =>
  queryOptions({ queryKey: ['templates'], queryFn: ({ signal }) => listAllTemplates(signal) });

export const templateQuery = (id: string) =>
  queryOptions({ queryKey: ['template', id], queryFn: ({ signal }) => getTemplate(id, signal) });

export const tagsQuery = (id: string) =>
  queryOptions({ queryKey: ['template', id, 'tags'], queryFn: ({ signal }) => listTags(id, signal) });

export const tagGroupsQuery = (id: string) =>
  queryOptions({ queryKey: ['template', id, 'tag groups'], queryFn: ({ signal }) => tagGroups(id, {}, signal) });

export const buildQuery = (templateID: string, buildID: string) =>
  queryOptions({
    queryKey: ['build', templateID, buildID],
    queryFn: ({ signal }) => getBuild(templateID, buildID, {}, signal),
  });

export const keysQuery = () => queryOptions({ queryKey: ['keys'], queryFn: ({ signal }) => listKeys(signal) });

export const webhooksQuery = () =>
  queryOptions({ queryKey: ['webhooks'], queryFn: ({ signal }) => listWebhooks(signal) });

export const deliveriesQuery = (id: string, limit = 100) =>
  queryOptions({
    queryKey: ['webhooks', id, 'deliveries', limit],
    queryFn: ({ signal }) => listDeliveries(id, limit, signal),
  });

export const quotaQuery = () => queryOptions({ queryKey: ['quota'], queryFn: ({ signal }) => getQuota(signal) });

export const quotasQuery = () =>
  queryOptions({ queryKey: ['quotas'], queryFn: ({ signal }) => getQuotas(signal), refetchInterval: 10_000 });

export const statusQuery = () =>
  queryOptions({ queryKey: ['status'], queryFn: ({ signal }) => getStatus(signal), staleTime: 5_000 });

export const checkQuery = () => queryOptions({ queryKey: ['check'], queryFn: ({ signal }) => checkServer(signal) });

export const doctorQuery = () => queryOptions({ queryKey: ['doctor'], queryFn: ({ signal }) => getDoctor(signal) });

/** The newest chats. */
export const chatsQuery = (filter: ChatFilter = {}, limit = 8) =>
  queryOptions({
    queryKey: ['chats', filter, limit],
    queryFn: ({ signal }) => listChats(filter, { limit, signal }),
    placeholderData: keepPreviousData,
  });

export const checkpointsQuery = (chatId: string) =>
  queryOptions({ queryKey: ['chat', chatId, 'checkpoints'], queryFn: ({ signal }) => listCheckpoints(chatId, signal) });

export const attachmentsQuery = (chatId: string) =>
  queryOptions({ queryKey: ['chat', chatId, 'attachments'], queryFn: ({ signal }) => listAttachments(chatId, signal) });

export const agentsQuery = () =>
  queryOptions({ queryKey: ['agents'], queryFn: ({ signal }) => listAgents(signal), staleTime: MINUTE });

export const modelsQuery = () =>
  queryOptions({ queryKey: ['models'], queryFn: ({ signal }) => listModels(signal), staleTime: MINUTE });

export const usageQuery = (asked: UsageAsked) =>
  queryOptions({
    queryKey: ['usage', asked],
    queryFn: ({ signal }) => getUsage(asked, signal),
    refetchInterval: 60_000,
    placeholderData: keepPreviousData,
  });

export const sandboxUsageQuery = (id: string) =>
  queryOptions({
    queryKey: ['usage', 'sandbox', id],
    queryFn: ({ signal }) => getSandboxUsage(id, signal),
    refetchInterval: 30_000,
  });

export const walletQuery = () =>
  queryOptions({ queryKey: ['wallet'], queryFn: ({ signal }) => getWallet(signal), refetchInterval: 60_000 });

export const walletEntriesQuery = () =>
  queryOptions({
    queryKey: ['wallet', 'entries'],
    queryFn: ({ signal }) => getWalletEntries(signal),
    refetchInterval: 60_000,
  });
