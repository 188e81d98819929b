// The screenshot that was taken: copy or download.
import { Copy, Download } from 'lucide-react';
import { useEffect, useState } from 'react';
import type { Rect, Size } from '../../bridge/messages';
import { plainName } from '../../format/plain';
import { Button, Dialog, toast } from '../../ui';
import styles from './pane.module.css';
import { fileName } from './path';
import { strings } from './strings';

export interface PageShot {
  png: Blob;
  serviceId: string;
  path: string;
  /** What is in the picture, in pixels of the page's viewport. */
  rect: Rect;
  viewport: Size;
  /** Pixels of the picture for one of the page. */
  dpr: number;
  /** How far the page was scrolled. */
  scroll: { x: number; y: number };
}

export interface ShotDialogProps {
  shot: PageShot;
  /** Of the service, for the file's name. */
  name: string;
  onClose: () => void;
}

export function ShotDialog({ shot, name, onClose }: ShotDialogProps) {
  const address = useAddress(shot.png);
  const path = plainName(shot.path, 200);
  const mayCopy = typeof ClipboardItem !== 'undefined' && Boolean(navigator.clipboard?.write);
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.write([new ClipboardItem({ 'image/png': shot.png })]);
      toast.done(strings.copied);
    } catch (error) {
      toast.failed(strings.copyFailed, error);
    }
  }
  function download(): void {
    if (!address) return;
    const link = document.createElement('a');
    link.href = address;
    link.download = fileName(name, shot.path);
    link.click();
  }
  return (
    <Dialog
      isOpen
      onClose={onClose}
      size="lg"
      title={strings.shotTitle}
      actions={
        <>
          <Button onPress={copy} isDisabled={!mayCopy}>
            <Copy />
            {strings.copy}
          </Button>
          <Button onPress={download} look="primary" autoFocus>
            <Download />
            {strings.download}
          </Button>
        </>
      }
    >
      <div className={styles.shot}>{address && <img src={address} alt={strings.shotAlt(path)} />}</div>
      <p className="meta">
        <span className="num">{strings.size(shot.rect.width, shot.rect.height)}</span> · {strings.shotNote(path)}
      </p>
      {!mayCopy && <p className="meta">{strings.noCopy}</p>}
    </Dialog>
  );
}

/** An address for a picture, until it is not shown any more. */
function useAddress(png: Blob): string | null {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    const made = URL.createObjectURL(png);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [png]);
  return address;
}
