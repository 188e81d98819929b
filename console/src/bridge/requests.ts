// Tells which requests of the page failed. What the page gets and throws stays the same.
import { apply, cut, quietly, textOf, wrap } from './natives';

const MOST_ADDRESS = 300;
const OWN = '/.cabana/';
const startsWith = String.prototype.startsWith;
const upper = String.prototype.toUpperCase;

/** An address as people know it: of this origin, without the origin. */
export function shortAddress(address: string, origin: string): string {
  const own = apply(startsWith, address, [`${origin}/`]);
  return cut(own ? address.slice(origin.length) : address, MOST_ADDRESS);
}

const isOwn = (address: string) => apply(startsWith, address, [OWN]);

export type Failed = (text: string) => void;

export function watchRequests(scope: Window & typeof globalThis, failed: Failed): void {
  const { origin } = scope.location;
  const NativeUrl = scope.URL;
  const { baseURI } = scope.document;
  const tell = (method: unknown, address: unknown, outcome: string) =>
    quietly(() => {
      let whole = textOf(address, 4096);
      quietly(() => {
        whole = new NativeUrl(whole, baseURI).href;
      });
      const short = shortAddress(whole, origin);
      if (!isOwn(short)) failed(`${cut(apply(upper, textOf(method, 20), []), 20)} ${short} ${outcome}`);
    });

  const NativeRequest = scope.Request;
  const then = scope.Promise.prototype.then;
  wrap(scope, 'fetch', (original, self, args) => {
    const promise = apply(original, self, args);
    const about = (outcome: string) =>
      quietly(() => {
        const [target, options] = args as [unknown, { method?: unknown } | undefined];
        const request = target instanceof NativeRequest ? target : null;
        tell(options?.method ?? request?.method ?? 'GET', request ? request.url : target, outcome);
      });
    const answered = (response: Response) => {
      if (response.status >= 400) about(String(response.status));
      return response;
    };
    const broken = (error: unknown) => {
      quietly(() => {
        if ((error as Error | null)?.name !== 'AbortError') about('failed');
      });
      throw error;
    };
    try {
      return apply(then, promise, [answered, broken]);
    } catch {
      return promise;
    }
  });

  const asked = new WeakMap<object, { method: unknown; address: unknown }>();
  const listen = scope.EventTarget.prototype.addEventListener;
  wrap(scope.XMLHttpRequest.prototype, 'open', (original, self, args) => {
    const result = apply(original, self, args);
    quietly(() => {
      const request = self as XMLHttpRequest;
      const known = asked.has(request);
      asked.set(request, { method: args[0], address: args[1] });
      if (known) return;
      const about = (outcome: string) => {
        const { method, address } = asked.get(request) ?? {};
        tell(method, address, outcome);
      };
      const on = (name: string, action: () => void) => apply(listen, request, [name, () => quietly(action)]);
      on('load', () => {
        if (request.status >= 400) about(String(request.status));
      });
      on('error', () => about('failed'));
      on('timeout', () => about('timed out'));
    });
    return result;
  });

  // Of elements: such an event does not bubble, so it is caught on the way down.
  scope.addEventListener(
    'error',
    (event) =>
      quietly(() => {
        const element = event.target;
        if (!(element instanceof scope.Element)) return;
        const address = element.getAttribute('src') ?? element.getAttribute('href') ?? element.getAttribute('data');
        if (address) tell('GET', address, `failed (${cut(element.localName, 40)})`);
      }),
    true,
  );
}
