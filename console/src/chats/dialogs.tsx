// Renaming and deleting a chat.
import { useState } from 'react';
import { type Chat, deleteChat, updateChat } from '../api';
import { Button, Checkbox, ConfirmDialog, Dialog, ErrorBanner, TextField, toast } from '../ui';
import { strings } from './strings';
import { titleOf } from './title';

interface Props {
  chat: Pick<Chat, 'id' | 'title' | 'sandboxes'>;
  onClose: () => void;
}

export function RenameChat({ chat, onClose, onDone }: Props & { onDone?: (title: string) => void }) {
  const [title, setTitle] = useState(chat.title);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const length = title.trim().length;
  const wrong = length < 1 || length > 200;
  async function submit(): Promise<void> {
    if (wrong || busy) return;
    setBusy(true);
    setError(null);
    try {
      await updateChat(chat.id, { title: title.trim() });
      toast.done(strings.renamed);
      onDone?.(title.trim());
      onClose();
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  }
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={strings.renameTitle}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button look="primary" isPending={busy} isDisabled={wrong} onPress={submit}>
            {strings.renameIt}
          </Button>
        </>
      }
    >
      <TextField
        label={strings.title}
        value={title}
        onChange={setTitle}
        error={length > 200 ? strings.titleError(length) : null}
        autoFocus
        autoComplete="off"
        onKeyDown={(event) => event.key === 'Enter' && void submit()}
      />
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}

export function DeleteChat({ chat, onClose, onDone }: Props & { onDone: () => void }) {
  const [keeps, setKeeps] = useState(false);
  const title = titleOf(chat);
  const hasSandbox = chat.sandboxes.some((sandbox) => sandbox.state !== 'ended');
  return (
    <ConfirmDialog
      isOpen
      onClose={onClose}
      title={strings.deleteTitle(title)}
      action={strings.deleteIt}
      onConfirm={async () => {
        await deleteChat(chat.id, keeps);
        toast.done(strings.deleted(title));
        onDone();
      }}
    >
      <p>{strings.deleteText}</p>
      {hasSandbox && (
        <>
          <p>{keeps ? strings.keptSandbox : strings.deleteSandbox}</p>
          <Checkbox isSelected={keeps} onChange={setKeeps}>
            {strings.keepSandbox}
          </Checkbox>
        </>
      )}
    </ConfirmDialog>
  );
}
