// Saving: only the version that was edited is replaced. Else both versions are kept, and the person decides.
import { type FileContent, fileStatQuery, isApiError, readFile, statFile, writeFile } from '../../../api';
import { byteLength, decode, MAX_EDITED } from '../../../editor/text';
import { bytes } from '../../../format/size';
import { queryClient } from '../../../query-client';
import { put, setDocument, workspaceOf, written } from './documents';
import { strings } from './strings';

/** `etag`: what is replaced; null: nothing, the file must not exist. */
export async function save(id: string, path: string, etag?: string | null): Promise<'saved' | 'conflict'> {
  const document = workspaceOf(id).documents.get(path);
  if (!document) return 'saved';
  const doc = document.state.doc;
  const text = document.state.sliceDoc();
  const size = byteLength(text);
  if (size > MAX_EDITED) throw new Error(strings.tooLong(bytes(size)));
  try {
    const answer = await writeFile(id, path, text, etag === undefined ? document.etag : etag);
    written(id, path, doc, answer.etag);
    queryClient.setQueryData(fileStatQuery(id, path).queryKey, (old) => old && { ...old, ...answer });
    void queryClient.invalidateQueries({ queryKey: ['files', id] });
    return 'saved';
  } catch (error) {
    if (!isApiError(error) || (error.code !== 412 && error.error_code !== 'already_exists')) throw error;
    await showConflict(id, path);
    const found = workspaceOf(id).documents.get(path)?.conflict;
    if (found?.text !== text || found.etag === null) return 'conflict';
    // An answer was lost on the way: the file is what it should be.
    written(id, path, doc, found.etag);
    return 'saved';
  }
}

/** Reads what is in the sandbox now, to be compared. */
export async function showConflict(id: string, path: string): Promise<void> {
  try {
    const { text, etag } = await current(id, path);
    setDocument(id, path, { conflict: { text, etag } });
  } catch (error) {
    if (!isApiError(error) || error.code !== 404) throw error;
    setDocument(id, path, { conflict: { text: null, etag: null } });
  }
}

/** The bytes of a file and their version. */
export async function fetchFile(id: string, path: string, signal?: AbortSignal): Promise<FileContent> {
  const { bytes: content, etag } = await readFile(id, path, signal);
  if (etag !== null || !globalThis.crypto?.subtle) return { bytes: content, etag };
  // Sandboxes that were created before an update of the server do not say it. It is the digest.
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', content));
  return { bytes: content, etag: `"${[...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('')}"` };
}

/** The file as it is now; without a text if it has become something that is none. */
async function current(id: string, path: string): Promise<{ text: string | null; etag: string | null }> {
  const stat = await statFile(id, path);
  if (stat.size > MAX_EDITED || stat.binary) return { text: null, etag: stat.etag ?? null };
  const { bytes: content, etag } = await fetchFile(id, path);
  return { text: decode(content)?.text ?? null, etag: etag ?? stat.etag ?? null };
}

/** Somebody changed a file that has no edits here: shows the new version in place. */
export async function reload(id: string, path: string): Promise<void> {
  const { bytes: content, etag } = await fetchFile(id, path);
  const file = decode(content);
  const document = workspaceOf(id).documents.get(path);
  if (!file || !document || document.dirty) return;
  if (file.text === document.state.sliceDoc()) setDocument(id, path, { etag });
  else put(id, path, file, etag);
}
