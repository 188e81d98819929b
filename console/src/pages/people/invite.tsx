// Inviting somebody: the link is shown once.
import { useState } from 'react';
import { invite, type Role } from '../../api';
import { useSession } from '../../session';
import { Button, CodeBlock, Dialog, ErrorBanner, Select, TextField } from '../../ui';
import { ROLES, strings } from './strings';

interface Props {
  run: <T>(act: () => Promise<T>) => Promise<T>;
  onClose: () => void;
  onDone: () => void;
}

export function Invite({ run, onClose, onDone }: Props) {
  const { team, role: own } = useSession();
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Role>('developer');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [made, setMade] = useState<{ email: string; url: string } | null>(null);
  async function submit(): Promise<void> {
    if (!email.trim() || busy) return;
    setBusy(true);
    setError(null);
    try {
      setMade(await run(() => invite(team.id, { email: email.trim(), role })));
      onDone();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  }
  if (made) {
    return (
      <Dialog
        isOpen
        alert
        size="lg"
        onClose={onClose}
        title={strings.madeTitle(made.email)}
        actions={
          <Button look="primary" onPress={onClose}>
            {strings.done}
          </Button>
        }
      >
        <p>{strings.madeText}</p>
        <CodeBlock text={made.url} />
      </Dialog>
    );
  }
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={strings.inviteTitle}
      actions={
        <>
          <Button onPress={onClose}>{strings.cancel}</Button>
          <Button look="primary" onPress={submit} isPending={busy} isDisabled={!email.trim()}>
            {strings.make}
          </Button>
        </>
      }
    >
      <TextField
        label={strings.email}
        type="email"
        value={email}
        onChange={setEmail}
        hint={strings.emailHint}
        autoFocus
        autoComplete="off"
        onKeyDown={(event) => event.key === 'Enter' && void submit()}
      />
      <Select
        label={strings.role}
        value={role}
        onChange={setRole}
        options={ROLES.map((id) => ({ id, ...strings.roles[id], disabled: id === 'owner' && own !== 'owner' }))}
      />
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}
