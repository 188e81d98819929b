// Uploads with progress. Only XMLHttpRequest tells how much of a body has been sent.
import type { UploadManifest } from '../wire';
import { endSession, part, teamHeaders, url } from './client';
import { errorOf, networkError } from './error';

export interface UploadFile {
  /** Relative, with directories: `src/main.py`. */
  name: string;
  file: Blob;
}

export interface UploadOptions {
  /** Where to; `user-uploads` in the working directory by default. */
  directory?: string;
  onProgress?: (sent: number, total: number) => void;
  signal?: AbortSignal;
}

export function uploadFiles(id: string, files: UploadFile[], options: UploadOptions = {}): Promise<UploadManifest> {
  const form = new FormData();
  for (const { name, file } of files) form.append('file', file, name);
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open('POST', url(`/sandboxes/${part(id)}/uploads`, { directory: options.directory }));
    for (const [name, value] of Object.entries(teamHeaders('POST'))) xhr.setRequestHeader(name, value);
    xhr.upload.onprogress = (event) => options.onProgress?.(event.loaded, event.total);
    xhr.onerror = () => reject(networkError('upload'));
    xhr.onabort = () => reject(new DOMException('The upload was cancelled.', 'AbortError'));
    xhr.onload = () => {
      if (xhr.status >= 200 && xhr.status < 300) return resolve(JSON.parse(xhr.responseText) as UploadManifest);
      const error = errorOf(xhr.status, { get: (name) => xhr.getResponseHeader(name) }, xhr.responseText);
      if (error.code === 401) endSession();
      reject(error);
    };
    options.signal?.addEventListener('abort', () => xhr.abort(), { once: true });
    xhr.send(form);
  });
}
