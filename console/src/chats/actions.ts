// What parts of a conversation can do, and what they look up. Functions stay the same, so that what does not change is not drawn again.
import { createContext, useContext } from 'react';
import type { Attachment, Decision, Service } from '../api';
import type { MessageView } from './state/types';

export interface ChatActions {
  chatId: string;
  openService: (id: string) => void;
  openArtifact: (attachment: Attachment) => void;
  restore: (message: MessageView) => void;
  fork: (message: MessageView) => void;
  /** Sends the message that a turn began with once more. */
  retry: (turnId: string) => void;
  stop: () => void;
  decide: (callId: string, decision: Decision, note: string) => Promise<void>;
  answer: (callId: string, output: string) => Promise<void>;
}

export interface ChatLookup {
  services: ReadonlyMap<string, Service>;
  attachments: ReadonlyMap<string, Attachment>;
  /** Messages before which the files are kept. */
  checkpoints: ReadonlySet<string>;
  /** Nothing runs: files can be restored and chats forked. */
  idle: boolean;
}

export const ActionsContext = createContext<ChatActions | null>(null);
export const LookupContext = createContext<ChatLookup>({
  services: new Map(),
  attachments: new Map(),
  checkpoints: new Set(),
  idle: true,
});

export function useActions(): ChatActions {
  const actions = useContext(ActionsContext);
  if (!actions) throw new Error('There is no chat around this.');
  return actions;
}

export const useLookup = (): ChatLookup => useContext(LookupContext);
