// What stands in the box of a chat, kept until the browser's tab is closed.
import type { Uploaded } from './body';

export interface Draft {
  text: string;
  files: Uploaded[];
}

const MOST_TEXT = 262_144;
const keyOf = (chat: string) => `cabana.draft.${chat}`;

export function loadDraft(chat: string): Draft {
  try {
    const value = JSON.parse(sessionStorage.getItem(keyOf(chat)) ?? '{}') as Partial<Draft>;
    const files = Array.isArray(value.files) ? value.files.filter(isUploaded) : [];
    return { text: typeof value.text === 'string' ? value.text.slice(0, MOST_TEXT) : '', files: files.slice(0, 200) };
  } catch {
    return { text: '', files: [] };
  }
}

function isUploaded(value: unknown): value is Uploaded {
  const { id, name, mediaType, size } = (value ?? {}) as Record<string, unknown>;
  return (
    typeof id === 'string' && typeof name === 'string' && typeof mediaType === 'string' && typeof size === 'number'
  );
}

export function storeDraft(chat: string, draft: Draft): void {
  try {
    if (draft.text === '' && draft.files.length === 0) sessionStorage.removeItem(keyOf(chat));
    else sessionStorage.setItem(keyOf(chat), JSON.stringify(draft));
  } catch {
    // Storage is off or full: the text lasts as long as the page.
  }
}
