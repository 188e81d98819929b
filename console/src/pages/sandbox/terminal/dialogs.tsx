// Questions before something leaves the person's hands: a text of several lines, a link that a program printed.
import { lineCount, safeLink, showHidden } from '../../../terminal/safe';
import { Button, Dialog } from '../../../ui';
import { strings } from './strings';
import styles from './terminal.module.css';

const SHOWN = 8000;

export interface PasteDialogProps {
  text: string;
  /** Control characters that were in it. */
  removed: number;
  /** The program asked to be told what is pasted. */
  bracketed: boolean;
  onClose: () => void;
  onPaste: () => void;
}

export function PasteDialog({ text, removed, bracketed, onClose, onPaste }: PasteDialogProps) {
  return (
    <Dialog
      isOpen
      onClose={onClose}
      size="lg"
      title={strings.pasteTitle(lineCount(text))}
      actions={
        <>
          <Button onPress={onClose}>{strings.cancel}</Button>
          <Button look="primary" onPress={onPaste} autoFocus>
            {strings.paste}
          </Button>
        </>
      }
    >
      <p>
        {bracketed ? strings.pasteBracketed : strings.pasteText} {removed > 0 && strings.pasteRemoved(removed)}
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre className={styles.pasted} tabIndex={0}>
        {showHidden(text.slice(0, SHOWN))}
      </pre>
      {text.length > SHOWN && <p className="meta">{strings.pasteCut(SHOWN, text.length)}</p>}
    </Dialog>
  );
}

export function LinkDialog({ address, onClose }: { address: string; onClose: () => void }) {
  const link = safeLink(address);
  const shown = (link?.href ?? showHidden(address)).slice(0, 1000);
  function open(): void {
    if (link) window.open(link.href, '_blank', 'noopener,noreferrer');
    onClose();
  }
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={link ? strings.linkTitle(link.host) : strings.badLink}
      actions={
        <>
          <Button onPress={onClose} autoFocus={!link}>
            {strings.cancel}
          </Button>
          {link && (
            <Button look="primary" onPress={open} autoFocus>
              {strings.openLink}
            </Button>
          )}
        </>
      }
    >
      {link && <p>{strings.linkText}</p>}
      <code className={styles.address}>{shown}</code>
      {link?.hasUser && <p>{strings.linkUser}</p>}
    </Dialog>
  );
}
