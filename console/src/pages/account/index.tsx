// One's own account: name, email and password.
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { setPassword, updatePerson } from '../../api';
import { queryClient } from '../../query-client';
import { beginSession, useSession } from '../../session';
import { Button, Card, ErrorBanner, Page, PageHead, TextField, toast } from '../../ui';
import { useSignInAgain } from '../people/again';
import { strings } from './strings';

export default function Account() {
  const { byKey } = useSession();
  return (
    <Page title={strings.title}>
      <PageHead title={strings.title} />
      {byKey ? (
        <p className="muted">{strings.byKey}</p>
      ) : (
        <>
          <Who />
          <Password />
        </>
      )}
    </Page>
  );
}

function Who() {
  const { user } = useSession();
  const [name, setName] = useState(user.name);
  const [email, setEmail] = useState(user.email ?? '');
  const [run, again] = useSignInAgain();
  const save = useMutation({
    mutationFn: () => run(() => updatePerson({ name: name.trim(), email: email.trim() || undefined })),
    onSuccess: (session) => {
      beginSession(session);
      toast.done(strings.saved);
    },
  });
  const same = name.trim() === user.name && email.trim() === (user.email ?? '');
  return (
    <Card title={strings.who}>
      <div className="stack">
        <TextField label={strings.name} value={name} onChange={setName} autoComplete="name" />
        <TextField
          label={strings.email}
          type="email"
          value={email}
          onChange={setEmail}
          hint={strings.emailHint}
          autoComplete="username"
        />
        {save.error && <ErrorBanner error={save.error} />}
        <div>
          <Button onPress={() => save.mutate()} isPending={save.isPending} isDisabled={same || !name.trim()}>
            {strings.save}
          </Button>
        </div>
      </div>
      {again}
    </Card>
  );
}

function Password() {
  const { user } = useSession();
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const save = useMutation({
    mutationFn: () => setPassword({ currentPassword: user.hasPassword ? current : undefined, password: next }),
    onSuccess: () => {
      setCurrent('');
      setNext('');
      toast.done(strings.done);
      void queryClient.invalidateQueries({ queryKey: ['session'] });
    },
  });
  return (
    <Card title={strings.password}>
      <div className="stack">
        {!user.email && <p className="muted">{strings.needEmail}</p>}
        {user.hasPassword && (
          <TextField
            label={strings.current}
            type="password"
            value={current}
            onChange={setCurrent}
            autoComplete="current-password"
          />
        )}
        <TextField
          label={strings.next}
          type="password"
          value={next}
          onChange={setNext}
          hint={strings.hint}
          autoComplete="new-password"
        />
        {save.error && <ErrorBanner error={save.error} />}
        <div>
          <Button onPress={() => save.mutate()} isPending={save.isPending} isDisabled={!next || !user.email}>
            {user.hasPassword ? strings.change : strings.set}
          </Button>
        </div>
      </div>
    </Card>
  );
}
