// Files as texts. What is saved has the line breaks and the byte order mark that it had. Pure.

/** Above this a file is never fetched into an editor; the server refuses it, too. */
export const MAX_EDITED = 5 * 1024 * 1024;

export interface FileText {
  text: string;
  /** '\r\n' if all lines end so; else '\n', and a lone \r stays a character. */
  separator: '\n' | '\r\n';
}

/** Null if it is not UTF-8, and would not be the same after saving. */
export function decode(bytes: ArrayBuffer | Uint8Array): FileText | null {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
  if (text.includes('\0')) return null;
  const crlf = text.includes('\r\n') && !/(^|[^\r])\n/.test(text);
  return { text, separator: crlf ? '\r\n' : '\n' };
}

export const byteLength = (text: string): number => new TextEncoder().encode(text).length;

/** Whether colours would cost more than they help: very long texts, or lines. */
export function isPlain(text: string): boolean {
  if (text.length > 1024 * 1024) return true;
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at);
    const stop = end < 0 ? text.length : end;
    if (stop - at > 20_000) return true;
    at = stop + 1;
  }
  return false;
}
