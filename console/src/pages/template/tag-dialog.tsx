// Gives a tag to a build, or moves one.
import { useState } from 'react';
import type { TemplateBuild } from '../../api';
import { relative } from '../../format/time';
import { Button, Dialog, ErrorBanner, Select, TextField } from '../../ui';
import { strings } from './strings';
import { shortBuild } from './use-tags';

interface Props {
  /** The tag to move; without one, a name is asked for. */
  tag?: string;
  /** The build that gets it; without one, it is asked for. */
  build?: string;
  builds: readonly TemplateBuild[];
  onMove: (tag: string, buildID: string) => Promise<void>;
  onClose: () => void;
}

export function TagDialog({ tag, build, builds, onMove, onClose }: Props) {
  const ready = builds.filter((one) => one.status === 'ready');
  const [name, setName] = useState(tag ?? '');
  const [chosen, choose] = useState(build ?? ready[0]?.buildID ?? '');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const wrong = !/^[\w.-]{1,128}$/.test(name);
  async function submit(): Promise<void> {
    setBusy(true);
    try {
      await onMove(name, chosen);
      onClose();
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  }
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={tag ? strings.moveTitle(tag) : strings.newTagTitle(shortBuild(chosen))}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button look="primary" onPress={submit} isPending={busy} isDisabled={wrong || !chosen}>
            {tag ? strings.moveIt : strings.assign}
          </Button>
        </>
      }
    >
      {!tag && (
        <TextField
          label={strings.tagName}
          value={name}
          onChange={(text) => setName(text.trim().toLowerCase())}
          hint={strings.tagHint}
          error={name && wrong ? strings.tagError : null}
          placeholder="stable"
          mono
          autoFocus
        />
      )}
      {!build && (
        <Select
          label={strings.build}
          value={chosen}
          onChange={choose}
          options={ready.map((one) => ({
            id: one.buildID,
            label: shortBuild(one.buildID),
            note: relative(one.createdAt),
          }))}
        />
      )}
      {tag === 'default' && <p>{strings.moveDefaultText}</p>}
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}
