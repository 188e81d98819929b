// The list of uploads: progress, and what became of each file.
import { X } from 'lucide-react';
import { useRef, useState } from 'react';
import { bytes } from '../../../format/size';
import { Button, IconButton, StateDot, toast } from '../../../ui';
import styles from './files.module.css';
import { plain } from './names';
import { strings } from './strings';
import { MAX_FILES, type UploadItem, upload } from './upload';

const SHOWN = 100;
/** Progress is drawn at most this often. */
const EVERY_MS = 100;

export interface Uploads {
  items: readonly UploadItem[];
  busy: boolean;
  start: (directory: string, items: UploadItem[]) => void;
  cancel: () => void;
  clear: () => void;
}

export function useUploads(id: string, onDone: (directory: string) => void): Uploads {
  const [items, setItems] = useState<readonly UploadItem[]>([]);
  const [busy, setBusy] = useState(false);
  const abort = useRef<AbortController | null>(null);
  async function start(directory: string, next: UploadItem[]): Promise<void> {
    if (next.length === 0 || busy) return;
    if (next.length > MAX_FILES) return toast.note(strings.tooMany(MAX_FILES));
    abort.current = new AbortController();
    setBusy(true);
    setItems([...next]);
    let drawn = 0;
    await upload(id, directory, next, abort.current.signal, () => {
      const now = Date.now();
      if (now - drawn < EVERY_MS) return;
      drawn = now;
      setItems([...next]);
    });
    setItems([...next]);
    setBusy(false);
    onDone(directory);
  }
  return {
    items,
    busy,
    start: (directory, next) => void start(directory, next),
    cancel: () => abort.current?.abort(),
    clear: () => setItems([]),
  };
}

export function UploadPanel({ uploads }: { uploads: Uploads }) {
  const { items, busy } = uploads;
  if (items.length === 0) return null;
  const total = items.reduce((sum, item) => sum + item.file.size, 0);
  const sent = items.reduce((sum, item) => sum + item.sent, 0);
  const done = items.filter((item) => item.state === 'done').length;
  const failed = items.filter((item) => item.state === 'failed').length;
  const part = total > 0 ? Math.round((sent / total) * 100) : done === items.length ? 100 : 0;
  // What went wrong stands first.
  const order = [...items].sort((a, b) => Number(b.state === 'failed') - Number(a.state === 'failed'));
  return (
    <section className={styles.uploads} aria-label={strings.uploads}>
      <header>
        <span role="status">
          {busy
            ? strings.uploading(Math.min(done + failed + 1, items.length), items.length)
            : failed > 0
              ? strings.uploadedSome(done, failed)
              : strings.uploaded(done)}
        </span>
        {busy ? (
          <Button size="sm" onPress={uploads.cancel}>
            {strings.cancel}
          </Button>
        ) : (
          <IconButton size="sm" label={strings.closeUploads} onPress={uploads.clear}>
            <X />
          </IconButton>
        )}
      </header>
      <progress className={styles.progress} max={100} value={part} aria-label={strings.uploads} />
      <ul>
        {order.slice(0, SHOWN).map((item, i) => (
          <li key={i}>
            <StateDot state={DOTS[item.state]} />
            <span className="cut grow">{plain(item.name)}</span>
            <span className={item.state === 'failed' ? styles.failed : 'meta num'}>
              {item.state === 'failed'
                ? plain(item.error ?? '', 200)
                : item.savedAs
                  ? strings.savedAs(plain(item.savedAs.slice(item.savedAs.lastIndexOf('/') + 1), 60))
                  : item.state === 'sending' && item.file.size > 0
                    ? `${Math.round((item.sent / item.file.size) * 100)} %`
                    : bytes(item.file.size)}
            </span>
          </li>
        ))}
        {items.length > SHOWN && <li className="meta">{strings.moreFiles(items.length - SHOWN)}</li>}
      </ul>
    </section>
  );
}

const DOTS = { waiting: 'paused', sending: 'creating', done: 'done', failed: 'failed' } as const;
