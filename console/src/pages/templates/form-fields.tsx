// The fields of the dialog that makes a template.
import { useQuery } from '@tanstack/react-query';
import { FileUp } from 'lucide-react';
import { useRef, useState } from 'react';
import { quotaQuery, sandboxesQuery } from '../../api';
import { plainName } from '../../format/plain';
import { sandboxName, statusOf, templateName } from '../../format/sandbox';
import { mib } from '../../format/size';
import { Button, ButtonLink, Checkbox, NumberField, Select, TextField, toast } from '../../ui';
import { MOST_BYTES } from './dockerfile';
import type { Draft, Kind } from './form-state';
import { form } from './strings';
import styles from './templates.module.css';

interface Part {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
}

/** Written, pasted, opened, or dropped on it. */
export function DockerfileField({ draft, change, error, hint }: Part & { error?: string; hint: string }) {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  async function take(file: File | undefined): Promise<void> {
    if (!file) return;
    if (file.size > MOST_BYTES) return toast.failed(form.tooLarge);
    change({ dockerfile: await file.text() });
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping is one of three ways; the button is for keyboards
    <div
      className={styles.drop}
      data-over={over || undefined}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes('Files')) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void take(event.dataTransfer.files[0]);
      }}
    >
      <TextField
        label={form.dockerfile}
        value={draft.dockerfile}
        onChange={(dockerfile) => change({ dockerfile })}
        hint={hint}
        error={error || null}
        rows={11}
        mono
      />
      <input
        ref={input}
        type="file"
        hidden
        aria-label={form.uploadName}
        onChange={(event) => {
          void take(event.target.files?.[0]);
          event.target.value = '';
        }}
      />
      <Button size="sm" className={styles.open} onPress={() => input.current?.click()}>
        <FileUp />
        {form.upload}
      </Button>
    </div>
  );
}

export function ImageFields({ draft, change, error }: Part & { error?: string }) {
  const [isPrivate, setPrivate] = useState(Boolean(draft.user));
  return (
    <>
      <TextField
        label={form.image}
        value={draft.image}
        onChange={(image) => change({ image })}
        hint={form.imageHint}
        error={error || null}
        placeholder="python:3.12-slim"
        mono
        maxLength={512}
      />
      <Checkbox
        isSelected={isPrivate}
        onChange={(on) => {
          setPrivate(on);
          if (!on) change({ user: '', password: '' });
        }}
      >
        {form.private}
      </Checkbox>
      {isPrivate && (
        <div className={`${styles.formRow} ${styles.two}`}>
          <TextField label={form.user} value={draft.user} onChange={(user) => change({ user })} autoComplete="off" />
          <TextField
            label={form.password}
            type="password"
            value={draft.password}
            onChange={(password) => change({ password })}
            hint={form.passwordHint}
            autoComplete="new-password"
          />
        </div>
      )}
    </>
  );
}

export function SandboxField({ draft, change }: Part) {
  const query = useQuery(sandboxesQuery());
  const rows = query.data?.items ?? [];
  if (query.data && rows.length === 0) {
    return (
      <div className="row wrap">
        <span className="muted">{form.noSandboxes}</span>
        <ButtonLink href="/create" size="sm">
          {form.createOne}
        </ButtonLink>
      </div>
    );
  }
  return (
    <Select
      label={form.sandbox}
      value={draft.sandbox}
      onChange={(sandbox) => change({ sandbox })}
      hint={form.sandboxHint}
      options={rows.slice(0, 500).map((row) => ({
        id: row.sandboxID,
        label: plainName(sandboxName(row), 60),
        note: `${statusOf(row).word.toLowerCase().slice(0, 20)} · ${plainName(templateName(row), 24)}`,
      }))}
    />
  );
}

export function More({ kind, draft, change, tagsError }: Part & { kind: Kind; tagsError?: string }) {
  const { data: quota } = useQuery(quotaQuery());
  const limit = quota?.limit;
  const most = (value: number | undefined) => (value ? `${form.sizeHint} At most ${mib(value)}.` : form.sizeHint);
  return (
    <details className={styles.more}>
      <summary>{form.details}</summary>
      <div className="stack">
        <TextField
          label={form.tags}
          value={draft.tags}
          onChange={(tags) => change({ tags })}
          hint={form.tagsHint}
          error={tagsError || null}
          placeholder="stable, v2"
          mono
        />
        {kind !== 'sandbox' && (
          <>
            <div className={styles.formRow}>
              <NumberField
                label={form.cpu}
                value={draft.cpuCount}
                onChange={(cpuCount) => change({ cpuCount })}
                min={1}
                max={limit?.maxVcpu}
                hint={limit ? `${form.sizeHint} At most ${limit.maxVcpu}.` : form.sizeHint}
              />
              <NumberField
                label={form.memory}
                value={draft.memoryMB}
                onChange={(memoryMB) => change({ memoryMB })}
                min={128}
                max={limit?.maxRamMb}
                unit="MiB"
                hint={most(limit?.maxRamMb)}
              />
              <NumberField
                label={form.disk}
                value={draft.diskMB}
                onChange={(diskMB) => change({ diskMB })}
                min={64}
                max={limit?.diskMb}
                unit="MiB"
                hint={most(limit?.diskMb)}
              />
            </div>
            <div className={`${styles.formRow} ${styles.two}`}>
              <TextField
                label={form.start}
                value={draft.startCmd}
                onChange={(startCmd) => change({ startCmd })}
                hint={form.startHint}
                placeholder="python3 server.py"
                mono
              />
              <TextField
                label={form.ready}
                value={draft.readyCmd}
                onChange={(readyCmd) => change({ readyCmd })}
                hint={form.readyHint}
                placeholder="curl -fs http://127.0.0.1:8000/"
                mono
              />
            </div>
            <Checkbox isSelected={draft.force} onChange={(force) => change({ force })}>
              {form.noCache}
            </Checkbox>
          </>
        )}
      </div>
    </details>
  );
}
