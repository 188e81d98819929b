// How a file of a chat can be shown. What it is called and what it says it is are claims: pictures are shown by the server
// as what they are, and everything else as text. Pure.

export type PreviewKind = 'image' | 'markdown' | 'csv' | 'code' | 'none';

/** Bytes of a text that are fetched. */
export const MOST_BYTES = 1_048_576;
/** Pictures that the server gives out for showing; SVG is a program, so it is shown as text. */
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const LARGEST_IMAGE = 50 * 1_048_576;

const BINARY =
  /\.(?:zip|gz|tgz|bz2|xz|zst|7z|rar|tar|pdf|docx?|xlsx?|pptx?|odt|ods|sqlite3?|db|parquet|npy|npz|pkl|whl|jar|exe|dll|so|o|a|bin|wasm|woff2?|ttf|otf|ico|mp[34]|m4a|wav|ogg|webm|mov|avi|mkv|avif|heic|tiff?|bmp|psd)$/i;

export function previewKind(file: { name: string; mediaType: string; size: number }): PreviewKind {
  const type = (file.mediaType.split(';')[0] ?? '').trim().toLowerCase();
  if (IMAGES.includes(type)) return file.size <= LARGEST_IMAGE ? 'image' : 'none';
  if (BINARY.test(file.name) || /^(?:audio|video|font)\//.test(type) || type === 'application/pdf') return 'none';
  if (/^image\//.test(type) && type !== 'image/svg+xml') return 'none';
  if (/\.(?:md|markdown)$/i.test(file.name) || type === 'text/markdown') return 'markdown';
  if (/\.(?:csv|tsv)$/i.test(file.name) || type === 'text/csv' || type === 'text/tab-separated-values') return 'csv';
  return 'code';
}

/** Null if it is no text. The end may be cut in the middle of a character. */
export function textOf(bytes: Uint8Array, isCut: boolean): string | null {
  if (bytes.subarray(0, 8192).includes(0)) return null;
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return null;
  }
  return text;
}

/** JSON on one line is set in several; what is not JSON stays. */
export function pretty(name: string, text: string): string {
  if (!/\.json$/i.test(name) || text.length > 262_144 || text.trim().includes('\n')) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
