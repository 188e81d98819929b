// The third step: how large, how long, and what is in it.
import { ClipboardPaste } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Quota, Template } from '../../api';
import { Button, Dialog, Segmented, TextField } from '../../ui';
import type { Problems } from './checks';
import styles from './create.module.css';
import type { Draft, Preset } from './draft';
import { parseEnv } from './env-file';
import { Files } from './files';
import { Life } from './life';
import { merge, Pairs } from './pairs';
import { Problem } from './problem';
import { Size } from './size';
import { strings } from './strings';

const words = strings.config;
const PRESETS = (['', 'internet', 'registries', 'none'] as const).map((id) => ({ id, label: words.presets[id] }));

export interface ConfigProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: Problems;
  template?: Template;
  quota?: Quota;
  canKeepMemory: boolean;
  files: readonly File[];
  onFiles: (files: File[]) => void;
}

function Section({ title, text, children }: { title: string; text?: string; children: ReactNode }) {
  return (
    <section className={styles.section} aria-label={title}>
      <div>
        <h2>{title}</h2>
        {text && <p className="meta">{text}</p>}
      </div>
      {children}
    </section>
  );
}

function PasteEnv({ onAdd }: { onAdd: (entries: [string, string][]) => void }) {
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState('');
  const { entries, wrong } = parseEnv(text);
  function close(): void {
    setOpen(false);
    setText('');
  }
  return (
    <>
      <Button size="sm" look="quiet" onPress={() => setOpen(true)}>
        <ClipboardPaste />
        {words.pasteEnv}
      </Button>
      <Dialog
        isOpen={isOpen}
        onClose={close}
        title={words.pasteTitle}
        size="lg"
        actions={
          <>
            <Button onPress={close}>{words.cancel}</Button>
            <Button
              look="primary"
              isDisabled={entries.length === 0}
              onPress={() => {
                onAdd(entries);
                close();
              }}
            >
              {words.pasteAdd(entries.length)}
            </Button>
          </>
        }
      >
        <TextField
          label={words.pasteField}
          value={text}
          onChange={setText}
          rows={10}
          mono
          autoFocus
          error={wrong.length > 0 ? words.pasteWrong(wrong) : null}
        />
      </Dialog>
    </>
  );
}

export function ConfigStep(props: ConfigProps) {
  const { draft, change, problems, template, quota, canKeepMemory, files, onFiles } = props;
  const isNarrow = draft.network === 'none' || draft.network === 'registries';
  return (
    <div className={`card ${styles.config}`}>
      <Section title={words.size}>
        <Size draft={draft} change={change} problems={problems} template={template} quota={quota} />
      </Section>
      <Section title={words.labels}>
        <TextField
          label={words.name}
          value={draft.name}
          onChange={(name) => change({ name })}
          hint={words.nameHint}
          maxLength={200}
          autoComplete="off"
        />
        <Pairs
          what={words.label}
          add={words.addLabel}
          pairs={draft.labels}
          onChange={(labels) => change({ labels })}
          isInvalid={Boolean(problems.labels)}
        />
        <Problem text={problems.labels} />
      </Section>
      <Section title={words.life}>
        <Life draft={draft} change={change} problems={problems} canKeepMemory={canKeepMemory} />
      </Section>
      <Section title={words.env} text={words.envText}>
        <Pairs
          what={words.variable}
          add={words.addEnv}
          pairs={draft.env}
          onChange={(env) => change({ env })}
          isInvalid={Boolean(problems.env)}
          takesFiles
        >
          <PasteEnv onAdd={(entries) => change({ env: merge(draft.env, entries) })} />
        </Pairs>
        <Problem text={problems.env} />
      </Section>
      <Section title={words.network}>
        <div className={styles.scroll}>
          <Segmented<Preset>
            label={words.networkLabel}
            value={draft.network}
            onChange={(network) => change({ network })}
            options={PRESETS}
          />
        </div>
        <p className="meta">{words.presetTexts[draft.network]}</p>
        {isNarrow ? (
          <TextField
            label={words.allow}
            value={draft.allow}
            onChange={(allow) => change({ allow })}
            hint={words.allowHint}
            error={problems.network}
            rows={3}
            mono
          />
        ) : (
          <Problem text={problems.network} />
        )}
      </Section>
      <Section title={words.files} text={words.filesText}>
        <Files files={files} onChange={onFiles} problem={problems.files} />
      </Section>
    </div>
  );
}
