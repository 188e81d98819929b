// The dialogs of a sandbox, by name.
import type { ComponentType } from 'react';
import { ArchiveDialog, KillDialog } from './confirm';
import { ForkDialog } from './fork';
import type { DialogProps } from './form';
import { ResizeDialog } from './resize';
import { SnapshotDialog } from './snapshot';
import { TimeoutDialog } from './timeout';

const DIALOGS = {
  snapshot: SnapshotDialog,
  fork: ForkDialog,
  resize: ResizeDialog,
  timeout: TimeoutDialog,
  archive: ArchiveDialog,
  kill: KillDialog,
} satisfies Record<string, ComponentType<DialogProps>>;

export type DialogName = keyof typeof DIALOGS;

/** The one that is open, if any. It starts anew each time. */
export function Dialogs({ open, ...props }: Omit<DialogProps, 'isOpen'> & { open: DialogName | null }) {
  const Chosen = open && DIALOGS[open];
  return Chosen ? <Chosen key={open} {...props} isOpen /> : null;
}
