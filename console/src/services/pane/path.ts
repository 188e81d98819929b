// Paths that people type and pages tell. Pure.

const MOST = 2048;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for
const CONTROLS = /[\u0000-\u001f\u007f]/;

/** Whether the server takes it as a place to go to. */
export const isPath = (path: string): boolean =>
  path.length <= MOST && /^\/(?![/\\])/.test(path) && !CONTROLS.test(path);

/** A path that can be opened again: `/` for one that cannot. */
export const openable = (path: string): string => (isPath(path) ? path : '/');

/** What somebody typed into the field: a path, or an address of the same service. Null: it is elsewhere, or none. */
export function typedPath(text: string, origins: readonly (string | null)[]): string | null {
  const trimmed = text.trim();
  if (/^https?:\/\//i.test(trimmed)) {
    let url: URL;
    try {
      url = new URL(trimmed);
    } catch {
      return null;
    }
    if (!origins.includes(url.origin)) return null;
    const path = url.pathname + url.search + url.hash;
    return isPath(path) ? path : null;
  }
  const path = /^[/\\]/.test(trimmed) ? trimmed : `/${trimmed}`;
  return isPath(path) ? path : null;
}

/** A name for a file of a picture of this page. */
export function fileName(service: string, path: string): string {
  const words = path
    .replace(/[?#].*$/, '')
    .replace(/[^A-Za-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 60);
  return `${service.replace(/[^a-z0-9_-]+/gi, '-') || 'page'}${words ? `-${words}` : ''}.png`;
}

/**
 * Whether an address may be framed with scripts of its own: a page of the web, as said, and never of the console's
 * origin, where it could do everything that the person can.
 */
export function isFrameable(url: string, origin: string, own: string): boolean {
  try {
    const { protocol, origin: real } = new URL(url);
    return (protocol === 'https:' || protocol === 'http:') && real === origin && real !== own;
  } catch {
    return false;
  }
}
