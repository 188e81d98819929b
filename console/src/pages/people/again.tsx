// Acts that hand out access want a recent sign-in: asks for the password, then does what was asked for.
import { type ReactNode, useCallback, useState } from 'react';
import { confirmPassword, isApiError } from '../../api';
import { useSession } from '../../session';
import { Button, Dialog, ErrorBanner, TextField } from '../../ui';
import { strings } from './strings';

interface Asked {
  resolve: () => void;
  reject: (error: unknown) => void;
  error: unknown;
}

/** Runs an act, once more after the password where the server wants it; and the dialog for it. */
export function useSignInAgain(): [<T>(act: () => Promise<T>) => Promise<T>, ReactNode] {
  const [asked, setAsked] = useState<Asked | null>(null);
  const run = useCallback(async <T,>(act: () => Promise<T>): Promise<T> => {
    try {
      return await act();
    } catch (error) {
      if (!isApiError(error, 'sign_in_again')) throw error;
      await new Promise<void>((resolve, reject) => setAsked({ resolve, reject, error }));
      return act();
    }
  }, []);
  const close = () => setAsked(null);
  const dialog = asked && (
    <Again
      onClose={() => {
        asked.reject(asked.error);
        close();
      }}
      onDone={() => {
        asked.resolve();
        close();
      }}
    />
  );
  return [run, dialog];
}

function Again({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const { user } = useSession();
  const [password, setPassword] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  async function submit(): Promise<void> {
    if (!password || busy) return;
    setBusy(true);
    setError(null);
    try {
      await confirmPassword(password);
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
      title={strings.againTitle}
      actions={
        <>
          <Button onPress={onClose}>{strings.cancel}</Button>
          {user.hasPassword && (
            <Button look="primary" onPress={submit} isPending={busy} isDisabled={!password}>
              {strings.confirm}
            </Button>
          )}
        </>
      }
    >
      <p>{strings.againText}</p>
      {user.hasPassword ? (
        <TextField
          label={strings.password}
          type="password"
          autoComplete="current-password"
          autoFocus
          value={password}
          onChange={setPassword}
          onKeyDown={(event) => event.key === 'Enter' && void submit()}
        />
      ) : (
        <p>{strings.noPassword}</p>
      )}
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}
