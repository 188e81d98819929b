import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { quotaQuery, type ResizeRequest, resizeSandbox } from '../../../api';
import { mib } from '../../../format/size';
import { cli, curl } from '../../../format/snippet';
import { NumberField, toast } from '../../../ui';
import { nameOf } from '../name';
import { strings } from '../strings';
import { type DialogProps, FormDialog } from './form';

export function ResizeDialog({ sandbox, isOpen, onClose }: DialogProps) {
  const [cpu, setCpu] = useState<number | null>(sandbox.cpuCount);
  const [memory, setMemory] = useState<number | null>(sandbox.memoryMB);
  const [disk, setDisk] = useState<number | null>(sandbox.diskSizeMB);
  const client = useQueryClient();
  const { data: quota } = useQuery({ ...quotaQuery(), enabled: isOpen });
  const id = sandbox.sandboxID;
  const words = strings.resize;
  const body: ResizeRequest = {};
  if (cpu && cpu !== sandbox.cpuCount) body.cpuCount = cpu;
  if (memory && memory !== sandbox.memoryMB) body.memoryMB = memory;
  if (disk && disk !== sandbox.diskSizeMB) body.diskSizeMB = disk;
  const shrinks = disk !== null && disk < sandbox.diskSizeMB;
  const changed = Object.keys(body).length > 0;
  const runs = sandbox.state === 'running';
  async function act(): Promise<void> {
    await resizeSandbox(id, body);
    await client.invalidateQueries({ queryKey: ['sandbox', id] });
    toast.done(words.done(nameOf(sandbox)));
  }
  const options = [
    ...(body.cpuCount ? ['--cpu', body.cpuCount] : []),
    ...(body.memoryMB ? ['--memory', body.memoryMB] : []),
    ...(body.diskSizeMB ? ['--disk', body.diskSizeMB] : []),
  ];
  const limit = quota?.limit;
  const upTo = (most: number | undefined, format: (value: number) => string) =>
    most ? `At most ${format(most)}.` : undefined;
  return (
    <FormDialog
      isOpen={isOpen}
      onClose={onClose}
      title={words.title(nameOf(sandbox))}
      action={words.act}
      isDisabled={!changed || shrinks}
      onAct={act}
      snippets={[
        { label: 'CLI', text: cli('resize', id, ...options) },
        { label: 'API', text: curl('POST', `/sandboxes/${id}/resize`, body) },
      ]}
    >
      <p className="muted">{runs ? words.now : words.later}</p>
      <NumberField
        label={words.cpu}
        value={cpu}
        onChange={setCpu}
        min={1}
        max={limit?.maxVcpu || undefined}
        hint={upTo(limit?.maxVcpu, String)}
      />
      <NumberField
        label={words.memory}
        value={memory}
        onChange={setMemory}
        min={128}
        max={limit?.maxRamMb || undefined}
        step={1}
        unit="MiB"
        hint={[memory ? mib(memory) : '', upTo(limit?.maxRamMb, mib)].filter(Boolean).join('. ')}
      />
      <NumberField
        label={words.disk}
        value={disk}
        onChange={setDisk}
        max={limit?.diskMb || undefined}
        unit="MiB"
        hint={[disk ? mib(disk) : '', upTo(limit?.diskMb, mib)].filter(Boolean).join('. ')}
        error={shrinks ? words.shrink(mib(sandbox.diskSizeMB)) : null}
      />
    </FormDialog>
  );
}
