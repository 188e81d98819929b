// The pane beside the conversation: what it shows, remembered for each chat.
import { useCallback, useEffect, useMemo, useState } from 'react';
import type { Service } from '../../api';
import { loadChatPane, type PaneKind, type PaneState, storeChatPane } from '../../chats/panes';
import { isUp } from '../../format/service';
import { loadSeen, storeSeen } from './seen';

export interface Pane extends PaneState {
  /** On narrow screens one of both is seen. */
  side: 'chat' | 'pane';
  setSide: (side: 'chat' | 'pane') => void;
  show: (kind: PaneKind, target: string | null) => void;
  toggle: () => void;
  hide: () => void;
}

const USUAL: PaneState = { kind: 'service', target: null, open: false };

export function usePane(chatId: string, services: readonly Service[]): Pane {
  const [state, setState] = useState<PaneState>(() => loadChatPane(chatId) ?? USUAL);
  const [side, setSide] = useState<'chat' | 'pane'>('chat');
  const change = useCallback(
    (next: (old: PaneState) => PaneState) =>
      setState((old) => {
        const made = next(old);
        storeChatPane(chatId, made);
        return made;
      }),
    [chatId],
  );
  // A service opens the pane once: whoever closes it afterwards means it.
  useEffect(() => {
    const seen = loadSeen();
    const fresh = services.filter((service) => isUp(service) && !seen.includes(service.id));
    const newest = fresh.at(-1);
    if (!newest) return;
    storeSeen(fresh.map((service) => service.id));
    change((old) => (old.open && old.kind !== 'service' ? old : { kind: 'service', target: newest.id, open: true }));
  }, [services, change]);
  const show = useCallback(
    (kind: PaneKind, target: string | null) => {
      change(() => ({ kind, target, open: true }));
      setSide('pane');
    },
    [change],
  );
  const toggle = useCallback(() => {
    change((old) => ({ ...old, open: !old.open }));
    setSide((old) => (old === 'chat' ? 'pane' : 'chat'));
  }, [change]);
  const hide = useCallback(() => {
    change((old) => ({ ...old, open: false }));
    setSide('chat');
  }, [change]);
  return useMemo(
    () => ({ ...state, side: state.open ? side : 'chat', setSide, show, toggle, hide }),
    [state, side, show, toggle, hide],
  );
}
