// Messages on their way to the server. They are seen at once, and kept where they were not taken.
import { useCallback, useEffect, useRef, useState } from 'react';
import { type NewMessage, requestKey, sendMessage } from '../../api';
import type { ChatStore } from '../../chats/live/store';
import type { ChatView } from '../../chats/state/types';

export interface Outgoing {
  key: string;
  text: string;
  files: string[];
  body: NewMessage;
  state: 'sending' | 'failed';
  error?: unknown;
  /** What it is called by the server, which has taken it. */
  messageId?: string;
}

/** The event that brings it should have come by then. */
const LATE_MS = 4000;

export interface Sending {
  outgoing: readonly Outgoing[];
  /** How often something was sent. */
  said: number;
  send: (body: NewMessage, text: string, files: string[]) => void;
  again: (key: string) => void;
  discard: (key: string) => void;
}

export function useSend(id: string, store: ChatStore, view: ChatView): Sending {
  const [outgoing, setOutgoing] = useState<readonly Outgoing[]>([]);
  const [said, setSaid] = useState(0);
  const list = useRef(outgoing);
  list.current = outgoing;
  const drop = useCallback((key: string) => setOutgoing((old) => old.filter((one) => one.key !== key)), []);
  const put = useCallback(
    (key: string, change: Partial<Outgoing>) =>
      setOutgoing((old) => old.map((one) => (one.key === key ? { ...one, ...change } : one))),
    [],
  );
  const post = useCallback(
    async (one: Outgoing): Promise<void> => {
      try {
        const answer = await sendMessage(id, one.body, one.key);
        store.started(answer);
        const steered = one.body.onBusy === 'steer';
        if (!answer.turn || answer.turn.status === 'queued' || steered) return drop(one.key);
        put(one.key, { messageId: answer.turn.messageId });
        setTimeout(() => drop(one.key), LATE_MS);
      } catch (error) {
        put(one.key, { state: 'failed', error });
      }
    },
    [id, store, drop, put],
  );
  useEffect(() => {
    const arrived = list.current.filter(
      (one) => one.messageId && view.messages.some((message) => message.id === one.messageId),
    );
    for (const one of arrived) drop(one.key);
  }, [view.messages, drop]);
  return {
    // A message that has arrived is not drawn twice, not even once.
    outgoing: outgoing.filter((one) => !view.messages.some((message) => message.id === one.messageId)),
    said,
    send: useCallback(
      (body, text, files) => {
        const one: Outgoing = { key: requestKey(), text, files, body, state: 'sending' };
        setOutgoing((old) => [...old, one]);
        setSaid((old) => old + 1);
        void post(one);
      },
      [post],
    ),
    again: (key) => {
      const one = outgoing.find((other) => other.key === key);
      if (!one) return;
      put(key, { state: 'sending', error: undefined });
      void post(one);
    },
    discard: drop,
  };
}
