import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { snapshotSandbox } from '../../../api';
import { cli, curl } from '../../../format/snippet';
import { TextField, toast } from '../../../ui';
import { nameOf } from '../name';
import { strings } from '../strings';
import { type DialogProps, FormDialog } from './form';

const GOOD = /^[a-z0-9][a-z0-9_-]{0,127}$/;

export function SnapshotDialog({ sandbox, isOpen, onClose }: DialogProps) {
  const [name, setName] = useState('');
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const id = sandbox.sandboxID;
  const wanted = name.trim();
  const words = strings.snapshot;
  const bad = wanted !== '' && !GOOD.test(wanted);
  async function act(): Promise<void> {
    await snapshotSandbox(id, wanted ? { name: wanted } : {});
    void client.invalidateQueries({ queryKey: ['snapshots'] });
    setName('');
    toast.done(words.taken, { action: { label: words.show, run: () => navigate(`/sandboxes/${id}/snapshots`) } });
  }
  return (
    <FormDialog
      isOpen={isOpen}
      onClose={onClose}
      title={words.title(nameOf(sandbox))}
      action={words.take}
      isDisabled={bad}
      onAct={act}
      snippets={[
        { label: 'CLI', text: cli('snapshot', 'create', id, ...(wanted ? ['--name', wanted] : [])) },
        { label: 'API', text: curl('POST', `/sandboxes/${id}/snapshots`, wanted ? { name: wanted } : {}) },
      ]}
    >
      <p className="muted">{words.text}</p>
      <TextField
        label={words.name}
        value={name}
        onChange={setName}
        hint={words.nameHint}
        error={bad ? words.nameBad : null}
        mono
        autoFocus
        maxLength={200}
      />
    </FormDialog>
  );
}
