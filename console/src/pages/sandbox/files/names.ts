// Paths and names. A name may be anything but a slash and a NUL: what cannot be seen, or reorders text, is made visible.

/** Pieces of a name: text as it is, and marks for what cannot be seen. */
export type Piece = { text: string; mark?: boolean };

const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/gu;

const USUAL: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\u001b': '\\e' };

/** No control pictures: fonts of a bare system do not have them. */
const markOf = (character: string): string =>
  USUAL[character] ?? `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;

export function pieces(name: string, most = 300): Piece[] {
  const out: Piece[] = [];
  const text = name.slice(0, most);
  let at = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > at) out.push({ text: text.slice(at, match.index) });
    out.push({ text: markOf(match[0]), mark: true });
    at = match.index + match[0].length;
  }
  if (at < text.length) out.push({ text: text.slice(at) });
  if (name.length > most) out.push({ text: '…', mark: true });
  return out;
}

/** The same as one string: for labels, titles and messages. */
export const plain = (name: string, most = 300): string =>
  pieces(name, most)
    .map((piece) => piece.text)
    .join('');

export const baseOf = (path: string): string => path.slice(path.replace(/\/+$/, '').lastIndexOf('/') + 1) || '/';

export function parentOf(path: string): string {
  const at = path.replace(/\/+$/, '').lastIndexOf('/');
  return at <= 0 ? '/' : path.slice(0, at);
}

export const join = (directory: string, name: string): string =>
  name.startsWith('/') ? name : `${directory.replace(/\/+$/, '')}/${name}`;

/** A path without `.` and `..`, from a directory. */
export function resolve(directory: string, path: string): string {
  const parts: string[] = [];
  for (const part of join(directory, path).split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return `/${parts.join('/')}`;
}

/** Whether `path` is `directory` or in it. */
export const isIn = (directory: string, path: string): boolean =>
  path === directory || path.startsWith(directory === '/' ? '/' : `${directory}/`);

/** The name was not UTF-8, so what the server shows does not name the file. */
export const isBroken = (name: string): boolean => name.includes('\ufffd');

/** What is wrong with a name for a new file; null if nothing is. */
export function nameError(name: string): string | null {
  if (name.trim() === '') return 'A name is needed.';
  if (name.includes('\0')) return 'A name cannot contain a NUL character.';
  if (name.endsWith('/') || name.split('/').some((part) => part === '.' || part === '..'))
    return 'This is not a name: no . and .. and no slash at the end.';
  const longest = Math.max(...name.split('/').map((part) => new TextEncoder().encode(part).length));
  return longest > 255 ? `${longest} bytes. Use at most 255.` : null;
}

const extension = (name: string): string => {
  const at = name.lastIndexOf('.');
  return at <= 0 ? '' : name.slice(at + 1).toLowerCase();
};

export type Kind = 'text' | 'csv' | 'markdown' | 'image' | 'sqlite' | 'large' | 'binary' | 'directory' | 'special';

const MIB = 1024 * 1024;
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const IMAGE_NAMES = ['png', 'jpg', 'jpeg', 'gif', 'webp'];

interface Known {
  name: string;
  type: string;
  size: number;
  binary: boolean;
  mediaType?: string | null;
}

/** How a file is shown. SVG and HTML are texts: they are never drawn here. */
export function kindOf(file: Known): Kind {
  if (file.type === 'directory') return 'directory';
  if (file.type !== 'file') return 'special';
  const end = extension(file.name);
  const unknown = file.mediaType === null && file.size > 5 * MIB;
  if (file.mediaType?.includes('sqlite') || (unknown && ['db', 'sqlite', 'sqlite3'].includes(end))) return 'sqlite';
  if (IMAGES.includes(file.mediaType ?? '') || (unknown && IMAGE_NAMES.includes(end)))
    return file.size <= 20 * MIB ? 'image' : 'large';
  if (file.size > 5 * MIB) return 'large';
  if (file.binary) return 'binary';
  if (end === 'csv' || end === 'tsv') return 'csv';
  if (end === 'md' || end === 'markdown') return 'markdown';
  return 'text';
}

/** The type of an image by its first bytes, of those that are shown. */
export function imageType(bytes: Uint8Array): string | null {
  const at = (start: number, text: string) => [...text].every((c, i) => bytes[start + i] === c.charCodeAt(0));
  if (at(0, '\x89PNG\r\n')) return 'image/png';
  if (bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff) return 'image/jpeg';
  if (at(0, 'GIF8')) return 'image/gif';
  if (at(0, 'RIFF') && at(8, 'WEBP')) return 'image/webp';
  return null;
}
