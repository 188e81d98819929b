// Creates a sandbox together with files, and says how much has been sent.
import type { NewSandbox, Sandbox } from '../../api';
import { endSession, teamHeaders } from '../../api/client';
import { errorOf, networkError } from '../../api/error';

export function createWithFiles(
  body: NewSandbox,
  files: readonly File[],
  onProgress: (sent: number, total: number) => void,
  signal: AbortSignal,
): Promise<Sandbox> {
  const form = new FormData();
  form.append('sandbox', JSON.stringify(body));
  for (const file of files) form.append('file', file, file.name);
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open('POST', '/v2/sandboxes');
    for (const [name, value] of Object.entries(teamHeaders('POST'))) xhr.setRequestHeader(name, value);
    xhr.upload.onprogress = (event) => onProgress(event.loaded, event.total);
    xhr.onerror = () => reject(networkError('upload'));
    xhr.onabort = () => reject(signal.reason);
    xhr.onload = () => {
      if (xhr.status >= 200 && xhr.status < 300) return resolve(JSON.parse(xhr.responseText) as Sandbox);
      const error = errorOf(xhr.status, { get: (name) => xhr.getResponseHeader(name) }, xhr.responseText);
      if (error.code === 401) endSession();
      reject(error);
    };
    signal.addEventListener('abort', () => xhr.abort(), { once: true });
    xhr.send(form);
  });
}
