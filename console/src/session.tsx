// Who is signed in. Pages inside have a session; without one, the sign-in page comes first.
import { useQuery } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect } from 'react';
import { Redirect, useLocation, useSearch } from 'wouter';
import { isApiError, type Session, sessionQuery, setTeam } from './api';
import { onSignedOut } from './api/client';
import { live } from './live';
import { queryClient } from './query-client';
import { signInPath } from './sign-in-path';
import { ErrorBanner, Loading } from './ui';

const SessionContext = createContext<Session | null>(null);

/** The session of a page. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error('useSession outside of a session');
  return session;
}

/** With `npm run dev` against a server without sessions, the proxy's API key is the session. */
const DEVELOPER: Session = {
  id: 'dev',
  user: { id: 'dev', name: 'developer', email: null, hasPassword: false, admin: true },
  team: { id: 'default', name: 'default' },
  teams: [],
  role: null,
  permissions: ['chats', 'sandboxes:read', 'templates:read', 'usage:read', 'keys', 'members', 'audit:read', 'admin'],
  byKey: false,
  mayMakeTeams: false,
  createdAt: '',
  expiresAt: '',
};

/** Takes a session that was just begun. */
export function beginSession(session: Session): void {
  setTeam(session.team.id);
  queryClient.setQueryData(sessionQuery().queryKey, session);
}

/** Forgets everything of a session. */
export function forgetSession(): void {
  live.stop();
  setTeam(null);
  queryClient.clear();
}

export function SessionGate({ children }: { children: ReactNode }) {
  const [path, navigate] = useLocation();
  const search = useSearch();
  const here = search ? `${path}?${search}` : path;
  const query = useQuery(sessionQuery());
  const missing = import.meta.env.DEV && isApiError(query.error) && query.error.code === 404;
  const session = query.data ?? (missing ? DEVELOPER : null);

  useEffect(() => {
    onSignedOut(() => {
      forgetSession();
      navigate(signInPath(here), { replace: true });
    });
    return () => onSignedOut(() => {});
  }, [here, navigate]);

  useEffect(() => {
    if (!session) return;
    setTeam(session.team.id);
    live.start();
  }, [session]);

  if (session) return <SessionContext.Provider value={session}>{children}</SessionContext.Provider>;
  if (isApiError(query.error) && query.error.code === 401) return <Redirect to={signInPath(here)} replace />;
  if (query.error) {
    return (
      <main className="page narrow">
        <ErrorBanner error={query.error} onRetry={() => void query.refetch()} />
      </main>
    );
  }
  return <Loading />;
}
