// Changing the limits of the team, for operators.
import { useState } from 'react';
import { setQuotas, type TeamQuotas } from '../../api';
import { Button, Dialog, ErrorBanner, TextField, toast } from '../../ui';
import { changes, draftOf, isLimit, needsOne } from './draft';
import { strings } from './strings';

export function EditLimits({
  quotas,
  onClose,
  onDone,
}: {
  quotas: TeamQuotas;
  onClose: () => void;
  onDone: () => void;
}) {
  const [draft, setDraft] = useState(() => draftOf(quotas));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const blocked = quotas.quotas.some((one) => !isLimit(one.kind, draft[one.kind] ?? ''));
  async function submit(): Promise<void> {
    if (blocked || busy) return;
    setBusy(true);
    setError(null);
    try {
      await setQuotas(quotas.teamID, changes(quotas, draft));
      toast.done(strings.saved);
      onDone();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  }
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={strings.dialog}
      actions={
        <>
          <Button onPress={onClose}>{strings.cancel}</Button>
          <Button look="primary" onPress={submit} isPending={busy} isDisabled={blocked}>
            {strings.save}
          </Button>
        </>
      }
    >
      <p className="muted">{strings.dialogText}</p>
      {quotas.quotas.map(({ kind }) => (
        <TextField
          key={kind}
          label={strings.units[kind] ? `${strings.kinds[kind]} (${strings.units[kind]})` : strings.kinds[kind]}
          value={draft[kind] ?? ''}
          onChange={(value) => setDraft((all) => ({ ...all, [kind]: value }))}
          error={isLimit(kind, draft[kind] ?? '') ? null : needsOne(kind) ? strings.wrongZero : strings.wrong}
          autoComplete="off"
        />
      ))}
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}
