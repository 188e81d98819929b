// Accepting an invitation: with a new account, or as the person who is signed in.
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { acceptInvitation, isApiError, lookAtInvitation, sessionQuery } from '../../api';
import { beginSession } from '../../session';
import { Button, ButtonLink, ErrorBanner, Loading, messageOf, TextField, useDocumentTitle } from '../../ui';
import { takeCode } from '../welcome/exchange';
import { Hut } from '../welcome/hut';
import { strings } from './strings';

let taken: string | null = null;

/** The code of the address, which is taken out of it at once. The same for every call. */
function codeOfLink(): string | null {
  taken = takeCode() ?? taken;
  return taken;
}

const LEAST = 10;

export default function InvitationPage() {
  useDocumentTitle(strings.title);
  const [code] = useState(codeOfLink);
  const [, navigate] = useLocation();
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [fault, setFault] = useState<{ name?: string; password?: string }>({});
  const invitation = useQuery({
    queryKey: ['invitation', code],
    queryFn: () => lookAtInvitation(code ?? ''),
    enabled: code !== null,
    retry: false,
  });
  const session = useQuery(sessionQuery());
  const accept = useMutation({
    mutationFn: (account?: { name: string; password: string }) => acceptInvitation(code ?? '', account),
    onSuccess: (begun) => {
      beginSession(begun);
      navigate('/', { replace: true });
    },
    onError: (error) => isApiError(error, 'invalid_request') && setFault({ password: messageOf(error) }),
  });
  if (code === null || invitation.error) {
    return (
      <Hut>
        <div className="stack">
          <h1>{strings.badTitle}</h1>
          <p className="muted lead">{code === null ? strings.missing : messageOf(invitation.error)}</p>
        </div>
        <ButtonLink href="/sign-in" size="lg" block>
          {strings.signIn}
        </ButtonLink>
      </Hut>
    );
  }
  if (!invitation.data || session.isPending) return <Loading label={strings.checking} />;
  const { team, email, role, hasAccount } = invitation.data;
  const own = session.data?.user.email === email ? session.data : null;
  function submit(event: React.FormEvent): void {
    event.preventDefault();
    const next = {
      name: name.trim() ? undefined : strings.noName,
      password: [...password].length >= LEAST ? undefined : strings.short,
    };
    setFault(next);
    if (!next.name && !next.password) accept.mutate({ name: name.trim(), password });
  }
  return (
    <Hut>
      <div className="stack">
        <h1>{strings.heading(team)}</h1>
        <p className="muted lead">{strings.text(email, role)}</p>
      </div>
      {own && (
        <div className="stack">
          <p>{strings.signedIn(own.user.name)}</p>
          <Button
            look="primary"
            size="lg"
            block
            isPending={accept.isPending}
            onPress={() => accept.mutate(undefined)}
            autoFocus
          >
            {strings.joinAs}
          </Button>
        </div>
      )}
      {!own && hasAccount && (
        <div className="stack">
          <p>{strings.hasAccount}</p>
          <ButtonLink href="/sign-in" size="lg" block>
            {strings.signIn}
          </ButtonLink>
        </div>
      )}
      {!own && !hasAccount && (
        <form className="stack" onSubmit={submit} noValidate>
          <TextField
            label={strings.name}
            name="name"
            autoComplete="name"
            autoFocus
            size="lg"
            value={name}
            onChange={setName}
            error={fault.name ?? null}
          />
          <TextField
            label={strings.password}
            type="password"
            name="password"
            autoComplete="new-password"
            size="lg"
            hint={strings.hint}
            value={password}
            onChange={setPassword}
            error={fault.password ?? null}
          />
          <Button type="submit" look="primary" size="lg" block isPending={accept.isPending}>
            {strings.join}
          </Button>
        </form>
      )}
      {accept.error && !isApiError(accept.error, 'invalid_request') && <ErrorBanner error={accept.error} />}
    </Hut>
  );
}
