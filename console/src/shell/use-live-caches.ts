// The shell's own subscriptions: what every page may show stays fresh.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { statusQuery } from '../api';
import { useLive } from '../live';
import { applyChat } from '../live/chats';
import { freshen } from '../live/fresh';
import { applyChanges, type Change } from '../live/sandboxes';

const BATCH_MS = 100;

export function useLiveCaches(): void {
  const client = useQueryClient();
  const waiting = useRef<Change[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);

  useLive('sandboxes', (message) => {
    if (message.type !== 'event') return;
    waiting.current.push({ id: message.event.sandboxId, row: message.sandbox });
    // A thousand events at once are one change of the list.
    timer.current ??= setTimeout(() => {
      const changes = waiting.current;
      waiting.current = [];
      timer.current = undefined;
      applyChanges(client, changes);
    }, BATCH_MS);
  });

  useLive('server', (message) => {
    if (message.type === 'status' && typeof message.status === 'object') {
      client.setQueryData(statusQuery().queryKey, message.status);
    }
  });

  useLive('chats', (message) => {
    if (message.type === 'chat.updated' || message.type === 'chat.removed') applyChat(client, message);
  });

  useLive('templates', (message) => {
    if (message.type !== 'changed') return;
    freshen(client, ['templates']);
    freshen(client, ['template', message.templateID]);
  });
}
