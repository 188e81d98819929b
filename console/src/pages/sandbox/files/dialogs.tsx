// New file, new folder, rename, delete.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { deleteFile, type FileEntry, filesQuery, makeDirectory, moveFile, writeFile } from '../../../api';
import { Button, ConfirmDialog, Dialog, ErrorBanner, TextField } from '../../../ui';
import { baseOf, join, nameError, plain } from './names';
import { strings } from './strings';

export type Asked =
  | { kind: 'file' | 'folder'; directory: string }
  | { kind: 'rename'; entry: FileEntry }
  | { kind: 'delete'; entry: FileEntry; edited: boolean };

export interface AskProps {
  id: string;
  asked: Asked;
  onClose: () => void;
  onMade: (path: string, folder: boolean) => void;
  onMoved: (from: string, to: string) => void;
  onDeleted: (entry: FileEntry) => void;
}

export function Ask(props: AskProps) {
  const { asked } = props;
  if (asked.kind === 'delete') return <Delete {...props} entry={asked.entry} edited={asked.edited} />;
  return <Naming {...props} />;
}

function Naming({ id, asked, onClose, onMade, onMoved }: AskProps) {
  const rename = asked.kind === 'rename' ? asked.entry : null;
  const [name, setName] = useState(rename?.path ?? '');
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const wrong = nameError(name);
  async function act(): Promise<void> {
    setTried(true);
    if (wrong) return;
    setBusy(true);
    setError(null);
    try {
      if (rename) {
        const to = join(rename.path.slice(0, -baseOf(rename.path).length), name);
        if (to !== rename.path) await moveFile(id, rename.path, to);
        onMoved(rename.path, to);
      } else if (asked.kind === 'file' || asked.kind === 'folder') {
        const path = join(asked.directory, name);
        if (asked.kind === 'file') await writeFile(id, path, '', null);
        else await makeDirectory(id, path);
        onMade(path, asked.kind === 'folder');
      }
      onClose();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  }
  const directory = plain(asked.kind === 'file' || asked.kind === 'folder' ? asked.directory : '', 100);
  const title = rename
    ? strings.renameTitle(plain(rename.name, 80))
    : asked.kind === 'file'
      ? strings.newFileTitle(directory)
      : strings.newFolderTitle(directory);
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={title}
      actions={
        <>
          <Button onPress={onClose}>{strings.cancel}</Button>
          <Button look="primary" onPress={act} isPending={busy}>
            {rename ? strings.move : strings.create}
          </Button>
        </>
      }
    >
      <TextField
        label={rename ? strings.newPath : strings.name}
        hint={rename ? undefined : strings.nameHint}
        error={tried ? wrong : null}
        value={name}
        onChange={setName}
        maxLength={4095}
        mono
        autoFocus
        onKeyDown={(event) => {
          if (event.key === 'Enter') void act();
        }}
      />
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}

function Delete({ id, entry, edited, onClose, onDeleted }: AskProps & { entry: FileEntry; edited: boolean }) {
  const folder = entry.type === 'directory';
  const inside = useQuery({ ...filesQuery(id, entry.path, true), enabled: folder });
  const name = plain(entry.name, 80);
  const entries = inside.data?.entries ?? [];
  const folders = entries.filter((one) => one.type === 'directory').length;
  return (
    <ConfirmDialog
      isOpen
      onClose={onClose}
      title={strings.deleteTitle(name)}
      action={strings.deleteAction(name)}
      onConfirm={async () => {
        await deleteFile(id, entry.path, folder);
        onDeleted(entry);
      }}
    >
      <p>{folder ? strings.deleteFolder : strings.deleteFile}</p>
      {folder && (
        <p>
          {inside.data
            ? strings.deleteCounted(entries.length - folders, folders, inside.data.truncated)
            : inside.isLoading && strings.deleteCounting}
        </p>
      )}
      {edited && <p>{strings.deleteEdits}</p>}
    </ConfirmDialog>
  );
}
