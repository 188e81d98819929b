// Uploads: what was dropped, in batches, with what became of each file.
import { type UploadFile, uploadFiles } from '../../../api';

export interface UploadItem extends UploadFile {
  state: 'waiting' | 'sending' | 'done' | 'failed';
  /** Bytes that were sent. */
  sent: number;
  /** Where it is now, if its name was taken. */
  savedAs?: string;
  error?: string;
}

export const MAX_FILES = 5000;
/** Of one request; the server takes 200 files. */
const BATCH_FILES = 50;
const BATCH_BYTES = 16 * 1024 * 1024;

export function batches(items: readonly UploadItem[]): UploadItem[][] {
  const out: UploadItem[][] = [];
  let batch: UploadItem[] = [];
  let size = 0;
  for (const item of items) {
    if (batch.length > 0 && (batch.length >= BATCH_FILES || size + item.file.size > BATCH_BYTES)) {
      out.push(batch);
      batch = [];
      size = 0;
    }
    batch.push(item);
    size += item.file.size;
  }
  if (batch.length > 0) out.push(batch);
  return out;
}

/** Of what was sent of a batch, the part of each file: they go one after the other. */
export function shares(sizes: readonly number[], sent: number, total: number): number[] {
  const all = sizes.reduce((sum, size) => sum + size, 0);
  let rest = total > 0 ? (sent / total) * all : 0;
  return sizes.map((size) => {
    const part = Math.max(0, Math.min(size, rest));
    rest -= size;
    return Math.round(part);
  });
}

/** Uploads all of it; `onChange` is called with the same items after each step. */
export async function upload(
  id: string,
  directory: string,
  items: UploadItem[],
  signal: AbortSignal,
  onChange: () => void,
): Promise<void> {
  for (const batch of batches(items)) {
    if (signal.aborted) break;
    for (const item of batch) item.state = 'sending';
    onChange();
    try {
      const manifest = await uploadFiles(id, batch, {
        directory,
        signal,
        onProgress: (sent, total) => {
          const parts = shares(
            batch.map((item) => item.file.size),
            sent,
            total,
          );
          batch.forEach((item, i) => {
            item.sent = parts[i] ?? 0;
          });
          onChange();
        },
      });
      for (const [i, item] of batch.entries()) settle(item, manifest.files[i]);
    } catch (error) {
      for (const item of batch) {
        item.state = 'failed';
        item.error = signal.aborted ? 'cancelled' : error instanceof Error ? error.message : String(error);
      }
    }
    onChange();
  }
  for (const item of items) {
    if (item.state !== 'waiting') continue;
    item.state = 'failed';
    item.error = 'cancelled';
  }
  onChange();
}

function settle(item: UploadItem, answer: { status: string; path?: string | null; error?: string | null } | undefined) {
  item.sent = item.file.size;
  if (answer?.status === 'uploaded') {
    item.state = 'done';
    if (answer.path && !answer.path.endsWith(`/${item.name}`)) item.savedAs = answer.path;
  } else {
    item.state = 'failed';
    item.error = answer?.error ?? 'the server did not say why';
  }
}

export const itemOf = (name: string, file: Blob): UploadItem => ({ name, file, state: 'waiting', sent: 0 });

/** Files of an input; those of a folder have a relative path. */
export const fromInput = (files: FileList): UploadItem[] =>
  [...files].slice(0, MAX_FILES + 1).map((file) => itemOf(file.webkitRelativePath || file.name, file));

/** Files and folders of a drop. Must be called in the event: browsers empty it afterwards. */
export async function fromDrop(data: DataTransfer): Promise<UploadItem[]> {
  const given = [...data.items].filter((item) => item.kind === 'file');
  const parts = given.map((item) => item.webkitGetAsEntry() ?? item.getAsFile());
  const found: UploadItem[] = [];
  for (const part of parts) {
    if (part instanceof File) found.push(itemOf(part.name, part));
    else if (part) await walk(part, '', found);
  }
  return found;
}

async function walk(entry: FileSystemEntry, prefix: string, found: UploadItem[]): Promise<void> {
  if (found.length > MAX_FILES) return;
  const name = prefix + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push(itemOf(name, file));
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A reader gives a hundred at a time, and nothing at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0 || found.length > MAX_FILES) return;
    for (const one of some) await walk(one, `${name}/`, found);
  }
}
