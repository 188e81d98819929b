// The acts that take something away.
import { useQueryClient } from '@tanstack/react-query';
import { archiveSandbox, killSandbox } from '../../../api';
import { cli, curl } from '../../../format/snippet';
import { ConfirmDialog, Snippets, toast } from '../../../ui';
import { nameOf } from '../name';
import { strings } from '../strings';
import { isEnded } from '../tab-query';
import type { DialogProps } from './form';

export function KillDialog({ sandbox, isOpen, onClose }: DialogProps) {
  const client = useQueryClient();
  const { sandboxID: id } = sandbox;
  const name = nameOf(sandbox);
  async function kill(): Promise<void> {
    await killSandbox(id).catch((error: unknown) => {
      // Somebody else was faster: it is gone, as wanted.
      if (!isEnded(error)) throw error;
    });
    toast.done(strings.actions.killed(name));
    void client.invalidateQueries({ queryKey: ['sandbox', id] });
  }
  return (
    <ConfirmDialog
      isOpen={isOpen}
      onClose={onClose}
      title={strings.kill.title(name)}
      action={strings.kill.act(name)}
      onConfirm={kill}
    >
      <p>{strings.kill.lost}</p>
      <p>{strings.kill.kept}</p>
      <Snippets
        label={strings.same}
        snippets={[
          { label: 'CLI', text: cli('kill', id) },
          { label: 'API', text: curl('DELETE', `/sandboxes/${id}`) },
        ]}
      />
    </ConfirmDialog>
  );
}

export function ArchiveDialog({ sandbox, isOpen, onClose }: DialogProps) {
  const client = useQueryClient();
  const { sandboxID: id } = sandbox;
  const name = nameOf(sandbox);
  async function archive(): Promise<void> {
    await archiveSandbox(id);
    toast.done(strings.actions.archived(name));
    void client.invalidateQueries({ queryKey: ['sandbox', id] });
  }
  return (
    <ConfirmDialog
      isOpen={isOpen}
      onClose={onClose}
      title={strings.archive.title(name)}
      action={strings.archive.act(name)}
      onConfirm={archive}
      danger={false}
    >
      <p>{strings.archive.lost}</p>
      <p>{strings.archive.kept}</p>
      <Snippets
        label={strings.same}
        snippets={[
          { label: 'CLI', text: cli('archive', id) },
          { label: 'API', text: curl('POST', `/sandboxes/${id}/archive`, { recycle: false }) },
        ]}
      />
    </ConfirmDialog>
  );
}
