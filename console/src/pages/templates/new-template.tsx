// The dialog that makes a template: from a Dockerfile, an image, or a sandbox.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { commitSandbox, type Template } from '../../api';
import { Button, Dialog, ErrorBanner, Segmented, Snippets, TextField, toast } from '../../ui';
import { beginBuild, buildPath } from './build';
import { DockerfileField, ImageFields, More, SandboxField } from './form-fields';
import { commitOf, type Draft, EMPTY, errorsOf, type Kind, orderOf, snippetsOf, startOf } from './form-state';
import { form } from './strings';
import styles from './templates.module.css';

export { KINDS, type Kind } from './form-state';

export interface NewTemplateProps {
  kind: Kind;
  /** Without it the kind is fixed. */
  onKind?: (kind: Kind) => void;
  /** Those that there are: a name that is among them gets a new build. */
  templates: readonly Template[];
  initial?: Partial<Draft>;
  /** Builds this template again: its name is fixed. */
  again?: string;
  sandbox?: string;
  onClose: () => void;
}

export function NewTemplate(props: NewTemplateProps) {
  const { kind, onKind, templates, initial, again, sandbox = '', onClose } = props;
  const [draft, setDraft] = useState<Draft>({ ...EMPTY, sandbox, ...initial });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const errors = errorsOf(kind, draft);
  const change = (part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part }));

  async function make(): Promise<string> {
    if (kind === 'sandbox') {
      const template = await commitSandbox(draft.sandbox, commitOf(draft));
      toast.done(form.committed(draft.name));
      return `/templates/${template.templateID}`;
    }
    const alias = draft.name.split(':')[0] ?? '';
    const isNew = !templates.some((one) => one.aliases.includes(alias) || one.templateID === alias);
    return buildPath(await beginBuild(orderOf(draft), startOf(kind, draft), isNew));
  }
  async function submit(): Promise<void> {
    setBusy(true);
    setError(null);
    try {
      const path = await make();
      void client.invalidateQueries({ queryKey: ['templates'] });
      void client.invalidateQueries({ queryKey: ['template'] });
      navigate(path);
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  }

  const blocked = Object.keys(errors).length > 0;
  return (
    <Dialog
      isOpen
      size="lg"
      onClose={onClose}
      title={again ? form.again(again) : form.title}
      actions={
        <>
          <Button onPress={onClose}>{form.cancel}</Button>
          <Button look="primary" onPress={submit} isPending={busy} isDisabled={blocked}>
            {kind === 'sandbox' ? form.commit : form.begin}
          </Button>
        </>
      }
    >
      {onKind && (
        <div>
          <Segmented<Kind>
            label={form.kind}
            value={kind}
            onChange={onKind}
            options={(['dockerfile', 'image', 'sandbox'] as const).map((id) => ({ id, label: form.kinds[id] }))}
          />
        </div>
      )}
      {!again && (
        <TextField
          label={form.name}
          value={draft.name}
          onChange={(name) => change({ name: name.toLowerCase() })}
          hint={form.nameHint}
          error={errors.name || null}
          placeholder="web"
          mono
          autoFocus
          maxLength={256}
        />
      )}
      {kind === 'dockerfile' && (
        <DockerfileField
          draft={draft}
          change={change}
          error={errors.dockerfile}
          hint={again && !initial?.dockerfile ? form.notKept : form.dockerfileHint}
        />
      )}
      {kind === 'image' && <ImageFields draft={draft} change={change} error={errors.image} />}
      {kind === 'sandbox' && <SandboxField draft={draft} change={change} />}
      <More kind={kind} draft={draft} change={change} tagsError={errors.tags} />
      <details className={styles.more}>
        <summary>{form.same}</summary>
        <Snippets snippets={snippetsOf(kind, draft)} />
      </details>
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}
