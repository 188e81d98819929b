// Where a link leads, and whether its words say so. Pure.

export interface Target {
  href: string;
  /** The host, as the browser will ask for it; or the address of a mail. */
  host: string;
}

const LONGEST = 4096;

/** What may be opened: http, https, and mail to one address. Null: nothing else. */
export function target(address: string): Target | null {
  if (address.length > LONGEST) return null;
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (url.protocol === 'mailto:') {
    // Without subject, text and further receivers: they would be somebody else's words.
    const to = decoded(url.pathname);
    return /^[\w.+-]{1,64}@[a-z\d-]+(\.[a-z\d-]+)+$/i.test(to) ? { href: `mailto:${to}`, host: to } : null;
  }
  if ((url.protocol !== 'http:' && url.protocol !== 'https:') || !url.host) return null;
  // A name before the host is there to be taken for it.
  url.username = '';
  url.password = '';
  return { href: url.href, host: url.host };
}

/** A path of the same place, or null. It is never opened as an address. */
export function relativePath(address: string): string | null {
  if (!address || /^[a-z][a-z\d+.-]*:|^[\\/]{2}|^#/i.test(address)) return null;
  return decoded(address.replace(/[?#].*$/s, '')).slice(0, LONGEST) || null;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** What has to be said beside the words of a link: null if they are the address itself, letter by letter. */
export function shownHost({ href, host }: Target, words: string): string | null {
  const said = words.trim().toLowerCase();
  const name = host.toLowerCase();
  if (href.startsWith('mailto:')) return said === name || said === `mailto:${name}` ? null : host;
  const bare = said.replace(/^https?:\/\//, '');
  const named = bare === name || (bare.startsWith(name) && /^[/?#]/.test(bare.slice(name.length)));
  // Further addresses in the words may be what a reader takes for the place.
  return named && !/\s/.test(bare) ? null : host;
}
