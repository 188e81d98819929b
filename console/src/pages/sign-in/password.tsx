// Signing in with email and password.
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { isApiError, type Session, signInByPassword } from '../../api';
import { Button, ErrorBanner, messageOf, TextField } from '../../ui';
import { strings } from './strings';

export function PasswordForm({ onDone }: { onDone: (session: Session) => void }) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [fault, setFault] = useState<{ email?: string; password?: string }>({});
  const enter = useMutation({
    mutationFn: () => signInByPassword(email.trim(), password),
    onSuccess: onDone,
    // Not said which of the two.
    onError: (error) => {
      setPassword('');
      if (isApiError(error, 'wrong_password')) setFault({ password: strings.wrong });
      if (isApiError(error, 'rate_limited')) setFault({ password: messageOf(error) });
    },
  });
  const known = isApiError(enter.error, 'wrong_password') || isApiError(enter.error, 'rate_limited');
  function submit(event: React.FormEvent): void {
    event.preventDefault();
    const next = {
      email: email.trim() ? undefined : strings.noEmail,
      password: password ? undefined : strings.noPassword,
    };
    setFault(next);
    if (!next.email && !next.password) enter.mutate();
  }
  return (
    <form className="stack" onSubmit={submit} noValidate>
      <TextField
        label={strings.email}
        type="email"
        name="email"
        autoComplete="username"
        autoFocus
        size="lg"
        value={email}
        onChange={setEmail}
        error={fault.email ?? null}
      />
      <TextField
        label={strings.password}
        type="password"
        name="password"
        autoComplete="current-password"
        size="lg"
        value={password}
        onChange={(text) => {
          setPassword(text);
          setFault({});
        }}
        error={fault.password ?? null}
      />
      <Button type="submit" look="primary" size="lg" block isPending={enter.isPending}>
        {strings.enter}
      </Button>
      {enter.error && !known && <ErrorBanner error={enter.error} />}
    </form>
  );
}
