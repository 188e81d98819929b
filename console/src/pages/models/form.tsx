// Adding a provider, or replacing one.
import { useId, useState } from 'react';
import { type ModelProvider, putProvider } from '../../api';
import { cli, curl } from '../../format/snippet';
import { Button, Dialog, ErrorBanner, Segmented, Snippets, TextField, toast } from '../../ui';
import { bodyOf, type Draft, draftOf, EMPTY, MOST_MODELS, modelsOf, problemsOf } from './draft';
import styles from './models.module.css';
import { strings } from './strings';

const words = strings.form;

type Preset = keyof typeof words.presets;
const PRESETS = (Object.keys(words.presets) as Preset[]).map((id) => ({ id, label: words.presets[id] }));
const DRAFTS: Record<Preset, Partial<Draft>> = {
  anthropic: { name: 'anthropic', kind: 'anthropic', baseUrl: '' },
  openai: { name: 'openai', kind: 'openai', baseUrl: '' },
  other: { name: '', kind: 'openai' },
};

/** The same as a command: the key comes from a file, so that no list of processes shows it. */
export function commandOf(draft: Draft): string {
  const models = modelsOf(draft.models).flatMap((name) => ['--model', name]);
  const url = draft.baseUrl ? ['--url', draft.baseUrl] : [];
  return `${cli('provider', 'add', draft.name || 'NAME', '--kind', draft.kind, ...url, ...models, '--key-file')} key.txt`;
}

export interface FormProps {
  /** The one to change; a new one if omitted. */
  provider?: ModelProvider;
  /** Names of the team's providers, and of the server's. */
  taken: readonly string[];
  servers: readonly string[];
  onClose: () => void;
  onDone: () => void;
}

export function ProviderForm({ provider, taken, servers, onClose, onDone }: FormProps) {
  const [draft, setDraft] = useState<Draft>(() => (provider ? draftOf(provider) : EMPTY));
  const [preset, setPreset] = useState<Preset>('anthropic');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const kindId = useId();
  const change = (part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part }));
  const problems = problemsOf(draft);
  const isOther = provider !== undefined || preset === 'other';
  const isServers = !provider && servers.includes(draft.name);
  const blocked = problems.size > 0 || isServers || (provider?.hasKey === true && !draft.key);
  const nameError = isServers ? words.nameServers : draft.name !== '' && problems.has('name') ? words.nameError : null;
  async function submit(): Promise<void> {
    setBusy(true);
    setError(null);
    try {
      await putProvider(bodyOf(draft));
      toast.done(words.saved(draft.name));
      onDone();
      onClose();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  }
  const shown = { ...bodyOf(draft), ...(draft.key ? { key: '…' } : {}) };
  return (
    <Dialog
      isOpen
      size="lg"
      onClose={onClose}
      title={provider ? words.editTitle(provider.name) : words.newTitle}
      actions={
        <>
          <Button onPress={onClose}>{words.cancel}</Button>
          <Button look="primary" onPress={submit} isPending={busy} isDisabled={blocked}>
            {provider ? words.save : words.add}
          </Button>
        </>
      }
    >
      {!provider && (
        <span>
          <Segmented
            label={words.preset}
            value={preset}
            onChange={(next) => {
              setPreset(next);
              change(DRAFTS[next]);
            }}
            options={PRESETS}
          />
        </span>
      )}
      {!provider && (
        <TextField
          label={words.name}
          value={draft.name}
          onChange={(name) => change({ name: name.trim() })}
          hint={taken.includes(draft.name) ? words.nameTaken : words.nameHint}
          error={nameError}
          mono
          autoComplete="off"
          maxLength={32}
        />
      )}
      <TextField
        label={words.key}
        type="password"
        value={draft.key}
        onChange={(key) => change({ key: key.trim() })}
        hint={provider?.hasKey ? words.keyAgain : words.keyHint}
        mono
        // Password managers would offer to keep it with the console's address.
        autoComplete="new-password"
        autoFocus
        maxLength={4096}
      />
      {isOther && (
        <>
          <div className="field" role="group" aria-labelledby={kindId}>
            <span className="label" id={kindId}>
              {words.kind}
            </span>
            <span>
              <Segmented
                label={words.kind}
                value={draft.kind}
                onChange={(kind) => change({ kind })}
                options={[
                  { id: 'openai', label: strings.kinds.openai },
                  { id: 'anthropic', label: strings.kinds.anthropic },
                ]}
              />
            </span>
            <span className="hint">{words.kindHint}</span>
          </div>
          <TextField
            label={words.url}
            type="url"
            value={draft.baseUrl}
            onChange={(baseUrl) => change({ baseUrl: baseUrl.trim() })}
            hint={words.urlHint}
            error={problems.has('url') ? words.urlError : null}
            placeholder="https://openrouter.ai/api/v1"
            mono
            autoComplete="off"
            maxLength={2048}
          />
        </>
      )}
      <TextField
        label={words.models}
        value={draft.models}
        onChange={(models) => change({ models })}
        rows={3}
        mono
        hint={words.modelsHint}
        error={problems.has('models') ? words.modelsError(MOST_MODELS) : null}
      />
      <details className={styles.same}>
        <summary>
          {strings.cli}, {strings.api}
        </summary>
        <Snippets
          snippets={[
            { label: strings.cli, text: commandOf(draft) },
            { label: strings.api, text: curl('POST', '/model-providers', shown) },
          ]}
        />
      </details>
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}
