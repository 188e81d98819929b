// A chat that stays as the server has it.
import { useEffect, useState, useSyncExternalStore } from 'react';
import { ApiError, getChat, listMessages } from '../../api';
import { live, useLive, useLiveState } from '../../live';
import { ChatStore, type StoreState } from './store';

const PAGE = 50;

export interface OpenChat extends StoreState {
  store: ChatStore;
  /** Whether what is shown may be old. */
  lost: boolean;
}

export function useChat(id: string): OpenChat {
  const [store] = useState(
    () =>
      new ChatStore({
        page: (before) => listMessages(id, { before, limit: PAGE }),
        chat: () => getChat(id),
      }),
  );
  const state = useSyncExternalStore(store.listen, () => store.state);
  useEffect(() => {
    store.start();
    const look = () => {
      if (document.visibilityState !== 'visible') return;
      live.retryNow();
      void store.check();
    };
    document.addEventListener('visibilitychange', look);
    return () => {
      document.removeEventListener('visibilitychange', look);
      store.stop();
    };
  }, [store]);
  // From the last event that is here: nothing is missed, nothing comes twice.
  useLive(
    state.ready ? `chat:${id}` : null,
    (message) => store.receive(message),
    () => store.view.lastEventId,
  );
  useLive('chats', (message) => {
    if (message.type === 'chat.removed' && message.chatId === id) store.gone(removed());
  });
  const lost = useLiveState() === 'lost';
  return { ...state, store, lost: lost || (state.error !== null && state.ready) };
}

const removed = () => new ApiError({ code: 404, error_code: 'chat_not_found', message: 'The chat was deleted.' });
