import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { quotaQuery, setTimeoutOf } from '../../../api';
import { cli, curl } from '../../../format/snippet';
import { NumberField, Segmented, toast } from '../../../ui';
import { nameOf } from '../name';
import { strings } from '../strings';
import { type DialogProps, FormDialog } from './form';

export function TimeoutDialog({ sandbox, isOpen, onClose }: DialogProps) {
  const [choice, setChoice] = useState('3600');
  const [minutes, setMinutes] = useState<number | null>(120);
  const client = useQueryClient();
  const { data: quota } = useQuery({ ...quotaQuery(), enabled: isOpen });
  const id = sandbox.sandboxID;
  const words = strings.timeout;
  const most = quota?.limit.maxLengthHours || null;
  const fits = (seconds: number) => most === null || seconds <= most * 3600;
  const seconds = choice === 'other' ? (minutes ?? 0) * 60 : Number(choice);
  async function act(): Promise<void> {
    await setTimeoutOf(id, seconds);
    await client.invalidateQueries({ queryKey: ['sandbox', id] });
    toast.done(words.done);
  }
  return (
    <FormDialog
      isOpen={isOpen}
      onClose={onClose}
      title={words.title(nameOf(sandbox))}
      action={words.act}
      isDisabled={seconds <= 0 || !fits(seconds)}
      onAct={act}
      snippets={[
        { label: 'CLI', text: cli('timeout', id, seconds) },
        { label: 'API', text: curl('POST', `/sandboxes/${id}/timeout`, { timeout: seconds }) },
      ]}
    >
      <p className="muted">{words.text(sandbox.lifecycle?.onTimeout === 'pause')}</p>
      <div className="field">
        <span className="label">{words.label}</span>
        <div>
          {' '}
          <Segmented
            label={words.label}
            value={choice}
            onChange={setChoice}
            options={words.options.filter((option) => option.id === 'other' || fits(Number(option.id)))}
          />{' '}
        </div>
      </div>
      {choice === 'other' && (
        <NumberField
          label={words.minutes}
          value={minutes}
          onChange={setMinutes}
          min={1}
          max={most ? most * 60 : undefined}
          unit="m"
          hint={most ? words.limit(most) : undefined}
        />
      )}
    </FormDialog>
  );
}
