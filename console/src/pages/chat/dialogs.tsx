// What the page asks before it does it.
import { useQueryClient } from '@tanstack/react-query';
import { restoreCheckpoint } from '../../api';
import type { MessageView } from '../../chats/state/types';
import { cli, curl } from '../../format/snippet';
import { Button, ConfirmDialog, Dialog, Snippets, toast } from '../../ui';
import { strings } from './strings';

export interface RestoreProps {
  chatId: string;
  message: MessageView;
  /** Messages that leave the conversation, as far as they are known. */
  count: number;
  onClose: () => void;
  onDone: () => void;
}

export function Restore({ chatId, message, count, onClose, onDone }: RestoreProps) {
  const client = useQueryClient();
  return (
    <ConfirmDialog
      isOpen
      onClose={onClose}
      title={strings.restoreTitle}
      action={strings.restoreIt}
      onConfirm={async () => {
        await restoreCheckpoint(chatId, message.turnId);
        toast.done(strings.restored);
        void client.invalidateQueries({ queryKey: ['chat', chatId] });
        onDone();
      }}
    >
      <p>{strings.restoreText(count)}</p>
      <p>{strings.restoreKept}</p>
    </ConfirmDialog>
  );
}

export function AsSnippets({ chatId, onClose }: { chatId: string; onClose: () => void }) {
  const prompt = strings.example;
  return (
    <Dialog
      isOpen
      size="lg"
      onClose={onClose}
      title={strings.snippetsTitle}
      actions={<Button onPress={onClose}>{strings.done}</Button>}
    >
      <Snippets
        snippets={[
          { label: 'API', text: curl('POST', `/chats/${chatId}/messages`, { prompt }) },
          { label: 'CLI', text: cli('chat', '--chat', chatId, prompt) },
        ]}
      />
    </Dialog>
  );
}
