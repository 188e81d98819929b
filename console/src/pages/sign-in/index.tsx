import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation, useSearchParams } from 'wouter';
import { isApiError, type Session, signIn, signInMethods } from '../../api';
import { beginSession } from '../../session';
import { safeTarget } from '../../sign-in-path';
import { Button, CodeBlock, ErrorBanner, messageOf, TextField, useDocumentTitle } from '../../ui';
import { Hut } from '../welcome/hut';
import { PasswordForm } from './password';
import { strings } from './strings';

export default function SignIn() {
  useDocumentTitle(strings.title);
  const [, navigate] = useLocation();
  const [params] = useSearchParams();
  const [key, setKey] = useState('');
  const [fault, setFault] = useState<string | null>(null);
  const methods = useQuery({ queryKey: ['sign-in-methods'], queryFn: ({ signal }) => signInMethods(signal) });
  const byPassword = methods.data?.password ?? true;
  function done(session: Session): void {
    beginSession(session);
    navigate(safeTarget(params.get('to')), { replace: true });
  }
  const enter = useMutation({
    mutationFn: () => signIn(key.trim()),
    onSuccess: done,
    onError: (error) => {
      if (isApiError(error) && error.code === 401) setFault(strings.refused);
      if (isApiError(error) && error.code === 429) setFault(messageOf(error));
    },
  });
  const known = isApiError(enter.error) && (enter.error.code === 401 || enter.error.code === 429);
  function submit(event: React.FormEvent): void {
    event.preventDefault();
    const text = key.trim();
    const problem = !text ? strings.empty : !/^[\x21-\x7e]{8,256}$/.test(text) ? strings.shape : null;
    setFault(problem);
    if (!problem) enter.mutate();
  }
  return (
    <Hut>
      <div className="stack">
        <h1>{strings.title}</h1>
        {byPassword && <p className="muted lead">{strings.text}</p>}
      </div>
      {byPassword && (
        <div className="stack">
          <PasswordForm onDone={done} />
          <span className="meta">{strings.noAccount}</span>
        </div>
      )}
      <span className="meta">{strings.or}</span>
      <form className="stack" onSubmit={submit} noValidate>
        <TextField
          label={strings.key}
          type="password"
          name="key"
          autoComplete="off"
          mono
          size="lg"
          placeholder={strings.placeholder}
          value={key}
          onChange={(text) => {
            setKey(text);
            setFault(null);
          }}
          error={fault}
        />
        <Button type="submit" size="lg" block isPending={enter.isPending}>
          {strings.submit}
        </Button>
        {enter.error && !known && <ErrorBanner error={enter.error} />}
      </form>
      <div className="stack">
        <span className="meta">{strings.server}</span>
        <CodeBlock text="cabana login" />
      </div>
    </Hut>
  );
}
