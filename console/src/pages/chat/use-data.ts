// What the page needs beside the conversation: services, files and checkpoints of the chat.
import { useQueries, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo, useRef } from 'react';
import { type Attachment, attachmentsQuery, checkpointsQuery, type Service, servicesQuery } from '../../api';
import type { ChatLookup } from '../../chats/actions';
import type { ChatView } from '../../chats/state/types';
import { freshen } from '../../live/fresh';
import { applyService } from '../../live/services';

export interface ChatData extends ChatLookup {
  serviceList: readonly Service[];
  attachmentList: readonly Attachment[];
}

export function useChatData(id: string, view: ChatView): ChatData {
  const client = useQueryClient();
  const ready = view.chat !== null;
  const sandboxIds = view.sandboxes.filter((one) => one.state !== 'ended').map((one) => one.sandboxId);
  const lists = useQueries({
    queries: sandboxIds.map((sandboxId) => servicesQuery(sandboxId)),
    combine: (results) => results.map((result) => result.data),
  });
  // The chat's events are one source of services, the list is the other; the cache holds what was told last.
  const told = useRef<ChatView['services']>({});
  useEffect(() => {
    for (const service of Object.values(view.services)) {
      if (told.current[service.id] !== service) applyService(client, { topic: '', type: 'service', service });
    }
    told.current = view.services;
  }, [client, view.services]);

  const checkpoints = useQuery({ ...checkpointsQuery(id), enabled: ready });
  const attachments = useQuery({ ...attachmentsQuery(id), enabled: ready });
  const said = view.messages.filter((message) => message.role === 'user').length;
  const busy = view.active !== null;
  const began = useRef({ said, busy });
  useEffect(() => {
    if (began.current.said !== said || began.current.busy !== busy) {
      began.current = { said, busy };
      freshen(client, ['chat', id, 'checkpoints']);
      freshen(client, ['chat', id, 'attachments']);
    }
  }, [client, id, said, busy]);

  const serviceList = useMemo(() => {
    const listed = lists.flatMap((list) => list ?? []);
    const known = new Set(listed.map((service) => service.id));
    // The list of a sandbox that was just made comes later than the event.
    const extra = Object.values(view.services).filter(
      (service) =>
        !known.has(service.id) && !lists.some((list) => list?.some((one) => one.sandboxId === service.sandboxId)),
    );
    return [...listed, ...extra];
  }, [lists, view.services]);
  const attachmentList = useMemo(() => {
    const all = new Map((attachments.data?.attachments ?? []).map((one) => [one.id, one]));
    for (const one of Object.values(view.attachments)) all.set(one.id, one);
    return [...all.values()];
  }, [attachments.data, view.attachments]);
  return useMemo(
    () => ({
      serviceList,
      attachmentList,
      services: new Map(serviceList.map((service) => [service.id, service])),
      attachments: new Map(attachmentList.map((one) => [one.id, one])),
      checkpoints: new Set((checkpoints.data?.checkpoints ?? []).flatMap((one) => one.messageId ?? [])),
      idle: !busy,
    }),
    [serviceList, attachmentList, checkpoints.data, busy],
  );
}
