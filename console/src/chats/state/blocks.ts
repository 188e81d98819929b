// A conversation as what is drawn: people's messages, and runs of the model's with their calls in boxes. Pure.
import type { Attachment } from '../../api/chat-types';
import { type CallView, isDone, type MessageView } from './types';

export type Row = { kind: 'call'; call: CallView } | { kind: 'reads'; calls: readonly CallView[] };

/** A service that a call started. */
export interface Started {
  id: string;
  name: string;
}

export type Block =
  | { kind: 'text'; key: string; text: string; streaming: boolean }
  | { kind: 'reasoning'; key: string; text: string; streaming: boolean }
  | { kind: 'tools'; key: string; rows: Row[] }
  /** A person or the client must do something. */
  | { kind: 'ask'; key: string; call: CallView }
  | { kind: 'files'; key: string; attachments: Attachment[]; services: Started[] }
  | { kind: 'mark'; key: string; status: 'interrupted' | 'cancelled' | 'failed' | 'length' | 'refused' };

export type Item =
  | { kind: 'user'; key: string; message: MessageView }
  | { kind: 'run'; key: string; turnId: string; messages: readonly MessageView[] };

/** Messages in order, those of the model together until a person says something. */
export function itemsOf(messages: readonly MessageView[]): Item[] {
  const items: Item[] = [];
  let run: MessageView[] = [];
  for (const message of messages) {
    if (message.role === 'user') {
      items.push({ kind: 'user', key: message.id, message });
      continue;
    }
    const last = items.at(-1);
    if (last?.kind === 'run' && last.turnId === message.turnId) {
      run.push(message);
      continue;
    }
    run = [message];
    items.push({ kind: 'run', key: message.id, turnId: message.turnId, messages: run });
  }
  return items;
}

const READS = new Set(['sandbox_read_file', 'sandbox_list_directory', 'sandbox_grep_files', 'sandbox_find_files']);
export const isRead = (call: CallView): boolean => READS.has(call.name) && call.status === 'success';

/** Reads that follow each other are one row. */
export function rowsOf(calls: readonly CallView[]): Row[] {
  const rows: Row[] = [];
  for (const call of calls) {
    const last = rows.at(-1);
    if (!isRead(call) || !last) rows.push({ kind: 'call', call });
    else if (last.kind === 'reads') rows[rows.length - 1] = { kind: 'reads', calls: [...last.calls, call] };
    else if (isRead(last.call)) rows[rows.length - 1] = { kind: 'reads', calls: [last.call, call] };
    else rows.push({ kind: 'call', call });
  }
  return rows;
}

/** The service that a call started, if it says one. */
export function serviceOf(call: CallView): Started | null {
  const { action } = (call.arguments ?? {}) as { action?: unknown };
  const starts = call.name === 'sandbox_start_service' || (call.name === 'sandbox_service' && action === 'restart');
  if (!starts || typeof call.data !== 'object' || call.data === null) return null;
  const data = call.data as Record<string, unknown>;
  const { id, name } = (data.service ?? data) as Record<string, unknown>;
  if (typeof id !== 'string' || !/^svc_\w{1,40}$/.test(id)) return null;
  return { id, name: typeof name === 'string' ? name : '' };
}

/** Whether a card asks for an answer. */
export const isOpen = (call: CallView): boolean => call.status === 'approval' || call.status === 'client';

/** What is drawn of a run of the model's messages. */
export function blocksOf(messages: readonly MessageView[]): Block[] {
  const blocks: Block[] = [];
  let calls: CallView[] = [];
  const seen = new Set<string>();
  const flush = () => {
    if (calls.length === 0) return;
    const shown = calls;
    calls = [];
    const key = shown[0]!.id;
    let rest: CallView[] = [];
    const push = () => {
      if (rest.length > 0) blocks.push({ kind: 'tools', key: `tools ${rest[0]!.id}`, rows: rowsOf(rest) });
      rest = [];
    };
    for (const call of shown) {
      if (isOpen(call)) {
        push();
        blocks.push({ kind: 'ask', key: `ask ${call.id}`, call });
      } else rest.push(call);
    }
    push();
    const attachments = shown.flatMap((call) => (isDone(call) ? call.attachments : []));
    const services = shown.flatMap((call) => (call.status === 'success' ? (serviceOf(call) ?? []) : []));
    const fresh = services.filter(({ id }, i) => !seen.has(id) && services.findIndex((one) => one.id === id) === i);
    for (const { id } of fresh) seen.add(id);
    if (attachments.length + fresh.length > 0)
      blocks.push({ kind: 'files', key: `files ${key}`, attachments, services: fresh });
  };
  for (const message of messages) {
    const streaming = message.status === 'streaming';
    const parts = message.content;
    const byId = new Map(message.calls.map((call) => [call.id, call]));
    parts.forEach((part, i) => {
      const live = streaming && i === parts.length - 1;
      if (part.type === 'text' && part.text.trim() !== '') {
        flush();
        blocks.push({ kind: 'text', key: `${message.id} ${i}`, text: part.text, streaming: live });
      } else if (part.type === 'reasoning' && part.text.trim() !== '') {
        flush();
        blocks.push({ kind: 'reasoning', key: `${message.id} ${i}`, text: part.text, streaming: live });
      } else if (part.type === 'tool_call') {
        const call = byId.get(part.toolCallId);
        if (call) calls.push(call);
        byId.delete(part.toolCallId);
      }
    });
    calls.push(...byId.values());
    const mark = markOf(message);
    if (mark) {
      flush();
      blocks.push({ kind: 'mark', key: `${message.id} mark`, status: mark });
    }
  }
  flush();
  return blocks;
}

function markOf(message: MessageView): Extract<Block, { kind: 'mark' }>['status'] | null {
  if (message.status === 'interrupted' || message.status === 'cancelled' || message.status === 'failed')
    return message.status;
  return message.stopReason === 'length' || message.stopReason === 'refused' ? message.stopReason : null;
}

/** The text of a message, for copying and for readers. */
export const textOf = (message: Pick<MessageView, 'content'>): string =>
  message.content
    .flatMap((part) => (part.type === 'text' ? [part.text] : []))
    .join('\n\n')
    .trim();
