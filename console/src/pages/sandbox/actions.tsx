// The buttons in the header of a sandbox.
import {
  Archive,
  Camera,
  Clock,
  Ellipsis,
  GitFork,
  HardDrive,
  Pause,
  Play,
  Scaling,
  Skull,
  Wrench,
} from 'lucide-react';
import { useState } from 'react';
import type { SandboxFull } from '../../api';
import { cli, curl } from '../../format/snippet';
import { useShortcuts } from '../../shortcuts';
import { Button, IconButton, Menu, type MenuEntry, SnippetMenu } from '../../ui';
import { type DialogName, Dialogs } from './dialogs';
import { strings } from './strings';
import { type Act, useActs } from './use-acts';
import { useSmall } from './use-small';

const words = strings.actions;

/** What the first button does: its state decides. */
function mainAct(phase: string): Act | null {
  if (phase === 'running') return 'pause';
  if (['paused', 'archived', 'recycled'].includes(phase)) return 'resume';
  return phase === 'failed' ? 'recover' : null;
}

export function Actions({ sandbox }: { sandbox: SandboxFull }) {
  const [dialog, open] = useState<DialogName | null>(null);
  const small = useSmall();
  const { busy, run } = useActs(sandbox);
  const id = sandbox.sandboxID;
  const phase = sandbox.phase || sandbox.state;
  const main = mainAct(phase);
  const settled = main !== null;
  const hasDisk = settled && phase !== 'archived' && phase !== 'recycled';

  useShortcuts([
    ...(main ? [{ keys: 'p', label: words[main], group: strings.group, run: () => void run(main) }] : []),
    ...(hasDisk
      ? [
          { keys: 's', label: words.snapshot, group: strings.group, run: () => open('snapshot') },
          { keys: 'f', label: words.fork, group: strings.group, run: () => open('fork') },
        ]
      : []),
  ]);

  const copies: MenuEntry[] = [
    { label: words.snapshot, icon: <Camera />, keys: 's', onAction: () => open('snapshot') },
    { label: words.fork, icon: <GitFork />, keys: 'f', onAction: () => open('fork') },
    'separator',
  ];
  const items: MenuEntry[] = [
    ...(small && hasDisk ? copies : []),
    ...(phase === 'running'
      ? ([
          { label: words.pauseDisk, icon: <HardDrive />, onAction: () => void run('pauseDisk') },
          { label: words.timeout, icon: <Clock />, onAction: () => open('timeout') },
        ] as MenuEntry[])
      : []),
    { label: words.resize, icon: <Scaling />, disabled: !hasDisk, onAction: () => open('resize') },
    {
      label: words.archive,
      icon: <Archive />,
      disabled: phase !== 'running' && phase !== 'paused',
      onAction: () => open('archive'),
    },
    'separator',
    { label: words.kill, icon: <Skull />, danger: true, onAction: () => open('kill') },
  ];
  const icons = { pause: <Pause />, pauseDisk: <Pause />, resume: <Play />, recover: <Wrench /> };
  return (
    <>
      <SnippetMenu api={curl('GET', `/sandboxes/${id}`)} cli={cli('shell', id)} />
      {main && (
        <Button
          look={main === 'pause' ? 'plain' : 'primary'}
          onPress={() => void run(main)}
          isPending={busy !== null}
          aria-keyshortcuts="p"
        >
          {icons[main]}
          {words[main]}
        </Button>
      )}
      {hasDisk && !small && (
        <>
          <Button onPress={() => open('snapshot')}>
            <Camera />
            {words.snapshot}
          </Button>
          <Button onPress={() => open('fork')}>
            <GitFork />
            {words.fork}
          </Button>
        </>
      )}
      <Menu
        label={words.more}
        items={items}
        trigger={
          <IconButton label={words.more} look="plain">
            <Ellipsis />
          </IconButton>
        }
      />
      <Dialogs open={dialog} sandbox={sandbox} onClose={() => open(null)} />
    </>
  );
}
