// Starts a service: a new one, one that replaces another, or one that takes a port over.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { type Port, type Service, startService } from '../../../api';
import { plain, plainName } from '../../../format/plain';
import { curl } from '../../../format/snippet';
import { applyService } from '../../../live/services';
import { Checkbox, NumberField, TextField, toast } from '../../../ui';
import type { Pair } from '../../create/draft';
import { Pairs } from '../../create/pairs';
import { FormDialog } from '../dialogs/form';
import { AccessField } from './access';
import { bodyOf, type Draft, nameFor, problems, startCommand } from './draft';
import { endProcess, startedAs } from './process';
import { usePublishQuestion } from './public';
import { strings } from './strings';

const words = strings.form;

export interface StartProps {
  sandboxId: string;
  services: readonly Service[];
  /** The port that is to become a service. */
  port: Port | null;
  onClose: () => void;
  onStarted: (service: Service) => void;
}

interface Filled extends Draft {
  env: Pair[];
}

export function StartDialog({ sandboxId, services, port, onClose, onStarted }: StartProps) {
  const client = useQueryClient();
  const [touched, setTouched] = useState(false);
  const [draft, setDraft] = useState<Filled>(() => ({
    name: nameFor(
      port?.process,
      services.map((one) => one.name),
    ),
    command: '',
    port: port?.port ?? null,
    cwd: '',
    env: [],
    access: 'private',
  }));
  const change = (part: Partial<Filled>) => setDraft((old) => ({ ...old, ...part }));
  const name = draft.name.trim();
  const replaced = services.find((one) => one.name === name);
  const body = bodyOf(draft, replaced?.access);
  const wrong = problems(draft);
  const question = usePublishQuestion(plainName(name, 40));

  const pid = typeof port?.pid === 'number' ? port.pid : null;
  const [ends, setEnds] = useState(pid !== null);
  const { data: started } = useQuery({
    queryKey: ['process', sandboxId, pid],
    queryFn: () => startedAs(sandboxId, pid ?? 0),
    enabled: pid !== null,
    staleTime: 0,
    retry: false,
  });
  useEffect(() => {
    if (!started) return;
    setDraft((old) =>
      old.command || old.cwd
        ? old
        : { ...old, command: plain(started.command, 2000), cwd: plainName(started.cwd, 1000) },
    );
  }, [started]);

  async function act(): Promise<boolean> {
    setTouched(true);
    if (wrong.size > 0) return false;
    if (body.access === 'public' && !(await question.ask())) return false;
    if (ends && pid !== null && !(await endProcess(sandboxId, pid))) throw new Error(words.endFailed);
    const service = await startService(sandboxId, body);
    applyService(client, { topic: '', type: 'service', service });
    toast.done(strings.done.start(service.name));
    onStarted(service);
    return true;
  }
  const process = plainName(port?.process ?? strings.form.port, 60);
  return (
    <>
      <FormDialog
        isOpen
        onClose={onClose}
        title={port ? words.portTitle(port.port) : words.title}
        action={words.act}
        isDisabled={touched && wrong.size > 0}
        onAct={act}
        snippets={[
          { label: 'CLI', text: startCommand(sandboxId, body) },
          { label: 'API', text: curl('POST', `/sandboxes/${sandboxId}/services`, body) },
        ]}
      >
        {port && (
          <div className="stack">
            <p className="muted">{words.held(process, pid, port.port)}</p>
            {pid !== null && (
              <Checkbox isSelected={ends} onChange={setEnds}>
                {words.end(process, pid)}
              </Checkbox>
            )}
          </div>
        )}
        <TextField
          label={words.command}
          value={draft.command}
          onChange={(command) => change({ command })}
          placeholder="npm run dev"
          hint={words.commandHint}
          error={touched && wrong.has('command') ? words.commandMissing : null}
          rows={2}
          mono
          autoFocus
          isRequired
          maxLength={65536}
        />
        <TextField
          label={words.name}
          value={draft.name}
          onChange={(value) => change({ name: value })}
          hint={replaced ? words.replaces(name) : undefined}
          error={wrong.has('name') ? words.nameBad : null}
          mono
          maxLength={40}
          autoComplete="off"
        />
        <NumberField
          label={words.port}
          value={draft.port}
          onChange={(value) => change({ port: value })}
          min={1}
          max={65535}
          hint={words.portHint}
          error={wrong.has('port') ? words.portBad : null}
        />
        <TextField
          label={words.cwd}
          value={draft.cwd}
          onChange={(cwd) => change({ cwd })}
          hint={words.cwdHint}
          placeholder="/home/user/app"
          mono
          maxLength={4096}
          autoComplete="off"
        />
        <div className="field" role="group" aria-label={words.env}>
          <span className="label">{words.env}</span>
          <Pairs
            what={words.envName}
            add={words.envAdd}
            pairs={draft.env}
            onChange={(env) => change({ env })}
            takesFiles
            isInvalid={wrong.has('env')}
          />
          {wrong.has('env') && <span className="error">{words.envBad}</span>}
        </div>
        <AccessField value={draft.access} onChange={(access) => change({ access })} />
      </FormDialog>
      {question.dialog}
    </>
  );
}
