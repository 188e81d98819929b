// Making a key, which is shown once, and renaming one.
import { useState } from 'react';
import { type ApiKey, createKey, renameKey } from '../../api';
import { Button, CodeBlock, Dialog, ErrorBanner, Snippets, TextField, toast } from '../../ui';
import { environment } from '../dashboard/sdk';
import { strings } from './strings';

const MOST_BYTES = 256;
const isWrong = (name: string) => new TextEncoder().encode(name.trim()).length > MOST_BYTES;

interface Props {
  onClose: () => void;
  onDone: () => void;
}

interface NameFormProps extends Props {
  title: string;
  action: string;
  initial: string;
  send: (name: string) => Promise<void>;
}

function NameForm({ title, action, initial, send, onClose, onDone }: NameFormProps) {
  const [name, setName] = useState(initial);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const blocked = !name.trim() || isWrong(name);
  async function submit(): Promise<void> {
    if (blocked || busy) return;
    setBusy(true);
    setError(null);
    try {
      await send(name.trim());
      onDone();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  }
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={title}
      actions={
        <>
          <Button onPress={onClose}>{strings.cancel}</Button>
          <Button look="primary" onPress={submit} isPending={busy} isDisabled={blocked}>
            {action}
          </Button>
        </>
      }
    >
      <TextField
        label={strings.name}
        value={name}
        onChange={setName}
        hint={strings.nameHint}
        error={isWrong(name) ? strings.nameError : null}
        autoFocus
        autoComplete="off"
        onKeyDown={(event) => event.key === 'Enter' && void submit()}
      />
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}

export function NewKey({ onClose, onDone }: Props) {
  const [made, setMade] = useState<{ name: string; key: string } | null>(null);
  if (!made) {
    return (
      <NameForm
        title={strings.newTitle}
        action={strings.make}
        initial=""
        send={async (name) => setMade(await createKey(name))}
        onClose={onClose}
        onDone={onDone}
      />
    );
  }
  return (
    <Dialog
      isOpen
      alert
      size="lg"
      onClose={onClose}
      title={strings.madeTitle(made.name)}
      actions={
        <Button look="primary" onPress={onClose}>
          {strings.done}
        </Button>
      }
    >
      <p>{strings.madeText}</p>
      <div className="stack">
        <span className="label">{strings.key}</span>
        <CodeBlock text={made.key} label="Copy the key" wrap />
        <span className="label">{strings.environment}</span>
        <Snippets
          label={strings.environment}
          snippets={[
            { label: strings.sdks, text: environment(made.key) },
            { label: strings.cli, text: `export CABANA_API_URL=${location.origin}\nexport CABANA_API_KEY=${made.key}` },
          ]}
        />
      </div>
    </Dialog>
  );
}

export function RenameKey({ entry, onClose, onDone }: Props & { entry: ApiKey }) {
  return (
    <NameForm
      title={strings.renameTitle(entry.name)}
      action={strings.renameIt}
      initial={entry.name}
      send={async (name) => {
        await renameKey(entry.id, name);
        toast.done(strings.renamed);
        onClose();
      }}
      onClose={onClose}
      onDone={onDone}
    />
  );
}
