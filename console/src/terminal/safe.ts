// What programs print is not to be trusted: links, titles, and texts that are pasted. Pure.

export interface SafeLink {
  href: string;
  /** As the browser will ask for it: international names in their ASCII form. */
  host: string;
  /** Whether it has a user name or password before the host, which is often there to deceive. */
  hasUser: boolean;
}

/** A link that may be opened, or null. Only http and https. */
export function safeLink(text: string): SafeLink | null {
  if (text.length > 4096) return null;
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return null;
  }
  if ((url.protocol !== 'http:' && url.protocol !== 'https:') || !url.host) return null;
  return { href: url.href, host: url.host, hasUser: url.username !== '' || url.password !== '' };
}

/** Controls (C0 without tab and line breaks, DEL, C1). */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;

/** Pasted text without characters that would act on the terminal; line breaks are \n. */
export function cleanPaste(text: string): { text: string; removed: number } {
  const unified = text.replace(/\r\n?/g, '\n');
  const clean = unified.replace(CONTROLS, '');
  return { text: clean, removed: unified.length - clean.length };
}

/** Whether a shell would run something before one can look at it. */
export const hasLines = (text: string): boolean => text.includes('\n');

export const lineCount = (text: string): number => text.replace(/\n$/, '').split('\n').length;

/** Shows what cannot be seen: bidirectional marks and characters without width as <U+202E>. */
export const showHidden = (text: string): string =>
  text.replace(
    /[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (one) => `<U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}>`,
  );

const TITLE = 48;

/** A title that a program gave its window, as a label: one line, bounded, nothing hidden. */
export function titleOf(text: string): string {
  const given = showHidden(text.slice(0, 400).replace(CONTROLS, '').replace(/\s+/g, ' ')).trim();
  // Shells say user and host first, which are the same in all tabs.
  const plain = given.replace(/^[\w.-]+@[\w.-]+: ?(?=[~/])/, 'shell ');
  return plain.length > TITLE ? `${plain.slice(0, TITLE - 1)}…` : plain;
}

/**
 * Whether this is an answer of the terminal to a question in the output, and not a key. Output that is replayed asks
 * again, and nobody waits for the answers: a shell would take them as typed.
 */
export function isReport(data: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences
  return /^(?:\u001b\[[?>=]?[\d;$]*[cnRty]|\u001b\[[IO]$|\u001b\]|\u001bP)/.test(data);
}
