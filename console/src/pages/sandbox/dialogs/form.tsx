// A dialog with fields, one act, its error, and the same act as a command and an API call.
import { type FormEvent, type ReactNode, useState } from 'react';
import type { SandboxFull } from '../../../api';
import { Button, Dialog, ErrorBanner, type Snippet, Snippets } from '../../../ui';
import { strings } from '../strings';

/** What each dialog of a sandbox gets. */
export interface DialogProps {
  sandbox: SandboxFull;
  isOpen: boolean;
  onClose: () => void;
}

export interface FormDialogProps {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  /** The verb of the act. */
  action: string;
  /** What stops it, if anything. */
  isDisabled?: boolean;
  /** With `false` the dialog stays: something is still to be said. */
  onAct: () => Promise<unknown>;
  snippets: Snippet[];
  children: ReactNode;
}

export function FormDialog(props: FormDialogProps) {
  const { isOpen, onClose, title, action, isDisabled, onAct, snippets, children } = props;
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  function close(): void {
    setError(null);
    onClose();
  }
  async function act(): Promise<void> {
    if (busy || isDisabled) return;
    setBusy(true);
    setError(null);
    try {
      if ((await onAct()) !== false) close();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  }
  function submit(event: FormEvent): void {
    event.preventDefault();
    void act();
  }
  return (
    <Dialog
      isOpen={isOpen}
      onClose={close}
      title={title}
      actions={
        <>
          <Button onPress={close}>{strings.cancel}</Button>
          <Button look="primary" onPress={() => void act()} isPending={busy} isDisabled={isDisabled}>
            {action}
          </Button>
        </>
      }
    >
      <form className="stack" onSubmit={submit}>
        {children}
        <Snippets label={strings.same} snippets={snippets} />
        <button type="submit" className="sr" tabIndex={-1} aria-hidden="true" />
      </form>
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}
