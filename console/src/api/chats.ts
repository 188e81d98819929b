// Chats, their files, agents and models.

import type { ChatExposure, ChatShare, NewChatShare } from '../wire';
import type {
  Agent,
  Attachment,
  AttachmentKind,
  Chat,
  ChatPage,
  ChatSandbox,
  ChatUpdate,
  Checkpoint,
  Decision,
  MessagePage,
  ModelPage,
  NewChat,
  NewMessage,
  StartedTurn,
  ToolCall,
  Turn,
} from './chat-types';
import { endSession, part, request, teamHeaders, url } from './client';
import { errorOf, networkError } from './error';

const at = (id: string, rest = '') => `/chats/${part(id)}${rest}`;
const once = (key?: string) => (key ? { 'Idempotency-Key': key } : undefined);

/** For requests that may be sent again without doing it twice. */
export function requestKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export interface ChatFilter {
  q?: string;
  status?: string;
}

export const listChats = (
  filter: ChatFilter = {},
  more: { cursor?: string; limit?: number; signal?: AbortSignal } = {},
) =>
  request<ChatPage>('GET', '/chats', {
    query: { ...filter, cursor: more.cursor, limit: more.limit },
    signal: more.signal,
  });

export const createChat = (body: NewChat, key?: string) =>
  request<StartedTurn>('POST', '/chats', { body, headers: once(key) });

export const getChat = (id: string, signal?: AbortSignal) => request<Chat>('GET', at(id), { signal });

export const updateChat = (id: string, body: ChatUpdate) => request<Chat>('PATCH', at(id), { body });

export const deleteChat = (id: string, keepSandbox: boolean) =>
  request<void>('DELETE', at(id), { query: { keepSandbox: keepSandbox || undefined } });

export const listShares = (id: string, signal?: AbortSignal) =>
  request<ChatShare[]>('GET', at(id, '/shares'), { signal });

/** What a share would show now. */
export const chatExposure = (id: string, toolDetails: boolean, signal?: AbortSignal) =>
  request<ChatExposure>('GET', at(id, '/exposure'), { query: { toolDetails: toolDetails || undefined }, signal });

/** The answer has the address itself, this once. */
export const shareChat = (id: string, body: NewChatShare) => request<ChatShare>('POST', at(id, '/shares'), { body });

export const unshareChat = (id: string, share: string) => request<void>('DELETE', at(id, `/shares/${part(share)}`));

export const sendMessage = (id: string, body: NewMessage, key?: string) =>
  request<StartedTurn>('POST', at(id, '/messages'), { body, headers: once(key) });

export const listMessages = (id: string, query: { before?: string; limit?: number } = {}, signal?: AbortSignal) =>
  request<MessagePage>('GET', at(id, '/messages'), { query, signal });

/** Answers when everything has stopped. */
export const cancelTurn = (id: string, turnId?: string) =>
  request<Turn>('POST', at(id, '/cancel'), { body: turnId ? { turnId } : {} });

export const decide = (id: string, callId: string, decision: Decision, note?: string) =>
  request<ToolCall>('POST', at(id, `/approvals/${part(callId)}`), { body: { decision, ...(note ? { note } : {}) } });

export const answerCalls = (id: string, results: { toolCallId: string; output: string; isError?: boolean }[]) =>
  request<{ toolCalls: ToolCall[] }>('POST', at(id, '/tool-results'), { body: { results } });

export const listAttachments = (id: string, signal?: AbortSignal) =>
  request<{ attachments: Attachment[] }>('GET', at(id, '/attachments'), { signal });

/** Brings all uploads into the sandbox again. */
export const syncAttachments = (id: string) =>
  request<{ attachments: Attachment[] }>('POST', at(id, '/attachments/sync'));

export const getAttachment = (id: string, signal?: AbortSignal) =>
  request<Attachment>('GET', `/attachments/${part(id)}`, { signal });

/** Only while it is in no chat. */
export const deleteAttachment = (id: string) => request<void>('DELETE', `/attachments/${part(id)}`);

/** Where its bytes are. `inline` shows PNG, JPEG, GIF and WebP; everything else is downloaded. */
export const attachmentUrl = (id: string, inline = false) =>
  url(`/attachments/${part(id)}/content`, { inline: inline || undefined });

export const addChatSandbox = (id: string, body: { name: string; role?: string; template?: string; from?: 'fork' }) =>
  request<ChatSandbox>('POST', at(id, '/sandboxes'), { body });

export const removeChatSandbox = (id: string, name: string) =>
  request<void>('DELETE', at(id, `/sandboxes/${part(name)}`));

export const listCheckpoints = (id: string, signal?: AbortSignal) =>
  request<{ checkpoints: Checkpoint[] }>('GET', at(id, '/checkpoints'), { signal });

export const restoreCheckpoint = (id: string, turnId: string) =>
  request<{ chat: Chat; removedMessages: number }>('POST', at(id, `/checkpoints/${part(turnId)}/restore`));

export const forkChat = (id: string, body: { messageId?: string; withSandbox?: boolean }, key?: string) =>
  request<{ chat: Chat }>('POST', at(id, '/fork'), { body, headers: once(key) });

export const listAgents = (signal?: AbortSignal) => request<{ agents: Agent[] }>('GET', '/agents', { signal });

export const listModels = (signal?: AbortSignal) => request<ModelPage>('GET', '/models', { signal });

export interface AttachmentUpload {
  name: string;
  kind?: AttachmentKind;
  onProgress?: (part: number) => void;
  signal?: AbortSignal;
}

/** Uploads one file, before any chat needs it. */
export function uploadAttachment(file: Blob, options: AttachmentUpload): Promise<Attachment> {
  const form = new FormData();
  // Before the file: a server that reads as it comes knows what follows.
  if (options.kind && options.kind !== 'upload') form.append('kind', options.kind);
  form.append('file', file, options.name);
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open('POST', '/attachments');
    for (const [name, value] of Object.entries(teamHeaders('POST'))) xhr.setRequestHeader(name, value);
    xhr.upload.onprogress = (event) => options.onProgress?.(event.total > 0 ? event.loaded / event.total : 0);
    xhr.onerror = () => reject(networkError('upload'));
    xhr.onabort = () => reject(new DOMException('The upload was cancelled.', 'AbortError'));
    xhr.onload = () => {
      if (xhr.status < 200 || xhr.status >= 300) {
        const error = errorOf(xhr.status, { get: (name) => xhr.getResponseHeader(name) }, xhr.responseText);
        if (error.code === 401) endSession();
        return reject(error);
      }
      try {
        const [first] = (JSON.parse(xhr.responseText) as { attachments: Attachment[] }).attachments;
        if (first) resolve(first);
        else reject(networkError('the answer has no file'));
      } catch (cause) {
        reject(networkError(cause));
      }
    };
    options.signal?.addEventListener('abort', () => xhr.abort(), { once: true });
    xhr.send(form);
  });
}
