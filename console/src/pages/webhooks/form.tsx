// Making a webhook, whose secret is shown once, and changing one.
import { useId, useState } from 'react';
import { createWebhook, updateWebhook, type Webhook } from '../../api';
import { Button, Checkbox, CodeBlock, Dialog, ErrorBanner, TextField } from '../../ui';
import { EVENTS, PREFIX, strings, VERIFY } from './strings';
import styles from './webhooks.module.css';

const words = strings.form;

/** 32 random bytes in hexadecimal. */
function newSecret(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const isUrl = (text: string) => /^https?:\/\/[^\s/]+/.test(text);

interface Props {
  webhook?: Webhook;
  onClose: () => void;
  onDone: () => void;
}

export function WebhookForm({ webhook, onClose, onDone }: Props) {
  const [name, setName] = useState(webhook?.name ?? '');
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [events, setEvents] = useState<ReadonlySet<string>>(
    new Set(webhook?.events ?? ['created', 'killed', 'failed'].map((id) => PREFIX + id)),
  );
  const [secret, setSecret] = useState(() => (webhook ? '' : newSecret()));
  const eventsId = useId();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [made, setMade] = useState(false);
  // Kinds that this page does not know stay as they are.
  const known = EVENTS.map((event) => PREFIX + event.id);
  const all = [...new Set([...known, ...events])];
  const badUrl = url !== '' && !isUrl(url);
  const badSecret = new TextEncoder().encode(secret).length > 512;
  const blocked = !name.trim() || !isUrl(url) || events.size === 0 || badSecret || (!webhook && !secret);

  function toggle(id: string, on: boolean): void {
    const next = new Set(events);
    if (on) next.add(id);
    else next.delete(id);
    setEvents(next);
  }
  async function submit(): Promise<void> {
    setBusy(true);
    setError(null);
    const body = { name: name.trim(), url, events: all.filter((id) => events.has(id)) };
    try {
      if (webhook) {
        await updateWebhook(webhook.id, { ...body, ...(secret ? { signatureSecret: secret } : {}) });
        onDone();
        onClose();
      } else {
        await createWebhook({ ...body, signatureSecret: secret });
        onDone();
        setMade(true);
      }
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  }
  if (made) {
    return (
      <Dialog
        isOpen
        alert
        size="lg"
        onClose={onClose}
        title={strings.made.title(name.trim())}
        actions={
          <Button look="primary" onPress={onClose}>
            {strings.made.done}
          </Button>
        }
      >
        <p>{strings.made.text}</p>
        <CodeBlock text={secret} label="Copy the secret" wrap />
        <span className="label">{strings.made.verify}</span>
        <CodeBlock text={VERIFY} label="Copy the function" />
      </Dialog>
    );
  }
  return (
    <Dialog
      isOpen
      size="lg"
      onClose={onClose}
      title={webhook ? words.editTitle(webhook.name) : words.newTitle}
      actions={
        <>
          <Button onPress={onClose}>{words.cancel}</Button>
          <Button look="primary" onPress={submit} isPending={busy} isDisabled={blocked}>
            {webhook ? words.save : words.create}
          </Button>
        </>
      }
    >
      <TextField label={words.name} value={name} onChange={setName} placeholder="alarms" autoFocus maxLength={256} />
      <TextField
        label={words.url}
        type="url"
        value={url}
        onChange={(text) => setUrl(text.trim())}
        hint={words.urlHint}
        error={badUrl ? words.urlError : null}
        placeholder="https://example.com/hook"
        mono
      />
      <div role="group" aria-labelledby={eventsId}>
        <div className="row">
          <span className="label" id={eventsId}>
            {words.events}
          </span>
          <span className="grow" />
          <Button size="sm" look="quiet" onPress={() => setEvents(new Set(all))}>
            {words.all}
          </Button>
          <Button size="sm" look="quiet" onPress={() => setEvents(new Set())}>
            {words.none}
          </Button>
        </div>
        <div className={styles.grid}>
          {all.map((id) => {
            const event = EVENTS.find((one) => PREFIX + one.id === id);
            return (
              <Checkbox key={id} isSelected={events.has(id)} onChange={(on) => toggle(id, on)}>
                <span className="cut">
                  <span className="mono">{event?.label ?? id}</span> <span className="meta">{event?.note}</span>
                </span>
              </Checkbox>
            );
          })}
        </div>
      </div>
      <TextField
        label={words.secret}
        value={secret}
        onChange={setSecret}
        hint={webhook ? words.secretEdit : words.secretHint}
        error={badSecret ? words.secretError : null}
        mono
        autoComplete="off"
        after={
          <Button size="sm" look="quiet" onPress={() => setSecret(newSecret())}>
            {words.make}
          </Button>
        }
      />
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}
