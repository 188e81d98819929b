import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { ApiError, forkSandbox } from '../../../api';
import { cli, curl } from '../../../format/snippet';
import { NumberField, Segmented, toast } from '../../../ui';
import { nameOf } from '../name';
import { strings } from '../strings';
import { type DialogProps, FormDialog } from './form';

const MOST = 20;
const TIMES = strings.timeout.options.filter((option) => option.id !== 'other');

export function ForkDialog({ sandbox, isOpen, onClose }: DialogProps) {
  const [count, setCount] = useState<number | null>(1);
  const [time, setTime] = useState('3600');
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const id = sandbox.sandboxID;
  const words = strings.fork;
  const timeout = Number(time);
  const many = count ?? 1;
  async function act(): Promise<void> {
    const results = await forkSandbox(id, { count: many, timeout });
    const made = results.flatMap((result) => result.sandbox ?? []);
    const failed = results.find((result) => result.error)?.error;
    void client.invalidateQueries({ queryKey: ['sandboxes'] });
    const error = failed && new ApiError({ ...failed, error_code: failed.error_code ?? 'fork_failed' });
    const [first] = made;
    if (!first) throw error ?? new Error(words.some(many, many));
    if (error) toast.failed(words.some(results.length - made.length, results.length), error);
    const action =
      made.length === 1
        ? { label: words.open, run: () => navigate(`/sandboxes/${first.sandboxID}`) }
        : { label: words.list, run: () => navigate('/sandboxes') };
    toast.done(words.done(made.length), { action });
  }
  return (
    <FormDialog
      isOpen={isOpen}
      onClose={onClose}
      title={words.title(nameOf(sandbox))}
      action={words.act(many)}
      isDisabled={count === null || count < 1 || count > MOST}
      onAct={act}
      snippets={[
        { label: 'CLI', text: cli('fork', id, ...(many > 1 ? ['--count', many] : []), '--timeout', timeout) },
        { label: 'API', text: curl('POST', `/sandboxes/${id}/fork`, { count: many, timeout }) },
      ]}
    >
      <p className="muted">{words.text}</p>
      <NumberField label={words.count} value={count} onChange={setCount} min={1} max={MOST} hint={`1 to ${MOST}.`} />
      <div className="field">
        <span className="label">{words.timeout}</span>
        <div>
          {' '}
          <Segmented label={words.timeout} value={time} onChange={setTime} options={TIMES} />{' '}
        </div>
      </div>
    </FormDialog>
  );
}
