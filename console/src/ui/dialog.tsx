// Dialogs. They close on Escape; the focus goes back to where it was.
import { type ReactNode, useState } from 'react';
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from 'react-aria-components';
import { Button } from './button';
import { ErrorBanner } from './error';
import { TextField } from './field';

export interface DialogProps {
  isOpen: boolean;
  onClose: () => void;
  title: ReactNode;
  children: ReactNode;
  /** Buttons at the end, in order. */
  actions?: ReactNode;
  size?: 'md' | 'lg';
  /** For questions that must be answered: a click beside it does not close it. */
  alert?: boolean;
}

export function Dialog({ isOpen, onClose, title, children, actions, size = 'md', alert }: DialogProps) {
  return (
    <ModalOverlay isOpen={isOpen} onOpenChange={(open) => !open && onClose()} isDismissable={!alert} className="scrim">
      <Modal className={size === 'lg' ? 'dialog dialog-lg' : 'dialog'}>
        <AriaDialog role={alert ? 'alertdialog' : 'dialog'} className="dialog-in">
          <Heading slot="title" level={2}>
            {title}
          </Heading>
          {children}
          {actions && <footer>{actions}</footer>}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

export interface ConfirmProps {
  isOpen: boolean;
  onClose: () => void;
  /** A question with the object's name: "Kill todo-app?" */
  title: string;
  /** The verb and its object: "Kill todo-app". */
  action: string;
  /** What is lost, and what stays. */
  children: ReactNode;
  /** Closes when done; an error is shown in the dialog. */
  onConfirm: () => unknown | Promise<unknown>;
  danger?: boolean;
  /** What one must type before. */
  typed?: string;
}

export function ConfirmDialog(props: ConfirmProps) {
  const { isOpen, onClose, title, action, children, onConfirm, danger = true, typed } = props;
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [text, setText] = useState('');
  function close(): void {
    setError(null);
    setText('');
    onClose();
  }
  async function confirm(): Promise<void> {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      close();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  }
  const blocked = typed !== undefined && text !== typed;
  return (
    <Dialog
      isOpen={isOpen}
      onClose={close}
      title={title}
      alert
      actions={
        <>
          <Button onPress={close} autoFocus={danger && typed === undefined}>
            Cancel
          </Button>
          <Button
            look={danger ? 'danger-solid' : 'primary'}
            onPress={confirm}
            isPending={busy}
            isDisabled={blocked}
            autoFocus={!danger && typed === undefined}
          >
            {action}
          </Button>
        </>
      }
    >
      <div className="stack muted">{children}</div>
      {typed !== undefined && (
        <TextField label={`Type ${typed} to go on`} value={text} onChange={setText} mono autoFocus />
      )}
      {error !== null && <ErrorBanner error={error} />}
    </Dialog>
  );
}
