// The script that Cabana adds to pages in a frame of the console. It tells the console where the page is and what goes
// wrong in it, and draws the page when asked. It must never break the page: nothing throws, nothing is left in globals.
import { watchErrors } from './errors';
import { type FromPage, MOST_ID, MOST_TEXT, type Rect, type ToPage, VERSION } from './messages';
import { apply, budget, cut, now, quietly, textOf } from './natives';
import { watchPlace } from './place';
import { renderer } from './renderer';
import { watchRequests } from './requests';

const MOST_ERRORS = 50;
const ERRORS_MS = 10_000;
const SCROLL_MS = 250;

function start(scope: Window & typeof globalThis, script: HTMLScriptElement): void {
  const { parent, location, history, URL: NativeUrl, setTimeout: later } = scope;
  const origin = script.dataset.origin ?? '';
  // Frames within the page have a parent that is not the console.
  if (parent === scope || parent !== scope.top || !/^https?:\/\/[^/]+$/.test(origin)) return;
  const post = parent.postMessage as (message: unknown, target: string, transfer?: Transferable[]) => void;
  const { back, forward } = scope.History.prototype;
  const { assign, reload } = location;
  const startsWith = String.prototype.startsWith;

  const say = (message: FromPage, transfer: Transferable[] = []) =>
    quietly(() => apply(post, parent, [{ cabana: VERSION, ...message }, origin, transfer]));

  const draw = renderer(scope, script.nonce);
  let drawing = 0;
  const allowed = budget(MOST_ERRORS, ERRORS_MS);
  // While the page is drawn, files are fetched for the picture: their failures are not the page's.
  const mayTell = () => drawing === 0 && allowed(now());

  const place = watchPlace(scope, (found) => say({ type: 'location', ...found }));
  watchErrors(scope, (error) => {
    if (mayTell()) say({ type: 'error', ...error });
  });
  watchRequests(scope, (text) => {
    if (mayTell()) say({ type: 'error', kind: 'request', text: cut(text, MOST_TEXT) });
  });

  let scrolls = false;
  scope.addEventListener(
    'scroll',
    () => {
      if (scrolls) return;
      scrolls = true;
      const tell = () => {
        scrolls = false;
        say({ type: 'scroll', x: Math.round(scope.scrollX), y: Math.round(scope.scrollY) });
      };
      quietly(() => apply(later, scope, [tell, SCROLL_MS]));
    },
    { passive: true },
  );

  function capture(id: string, rect?: Rect): void {
    // At once: the console takes silence for a page that does not answer.
    say({ type: 'location', ...place() });
    drawing += 1;
    draw(rect).then(
      (shot) => {
        drawing -= 1;
        say({ type: 'captured', id, path: place().path, ...shot }, [shot.png]);
      },
      (error: Error) => {
        drawing -= 1;
        say({ type: 'capture_failed', id, reason: textOf(error.message, 500) });
      },
    );
  }

  function obey(message: ToPage): void {
    const navigation = 'navigation' in scope ? scope.navigation : undefined;
    switch (message.type) {
      case 'hello':
        say({ type: 'ready', ...place() });
        return;
      case 'capture':
        capture(textOf(message.id, MOST_ID), message.rect);
        return;
      case 'navigate': {
        if (typeof message.path !== 'string' || !apply(startsWith, message.path, ['/'])) return;
        const url = new NativeUrl(message.path, location.origin);
        if (url.origin !== location.origin) return;
        // Before it is gone: what comes may take its time, or be no HTML.
        say({ type: 'location', ...place(), path: cut(url.pathname + url.search + url.hash, MOST_TEXT) });
        apply(assign, location, [url.href]);
        return;
      }
      case 'reload':
        say({ type: 'location', ...place() });
        apply(reload, location, []);
        return;
      // The history is that of the whole tab: without a page before this one, the console would go back.
      case 'back':
        if (navigation?.canGoBack !== false) apply(back, history, []);
        return;
      case 'forward':
        if (navigation?.canGoForward !== false) apply(forward, history, []);
        return;
    }
  }

  scope.addEventListener(
    'message',
    (event) =>
      quietly(() => {
        if (event.source !== parent || event.origin !== origin) return;
        const message = event.data as (ToPage & { cabana?: unknown }) | null;
        if (typeof message !== 'object' || message === null || message.cabana !== VERSION) return;
        // Not for the page, which may take every message for one of its own.
        event.stopImmediatePropagation();
        obey(message);
      }),
    true,
  );
  // A page from the browser's cache of whole pages does not run this script again.
  scope.addEventListener('pageshow', (event) => {
    if (event.persisted) say({ type: 'ready', ...place() });
  });
  say({ type: 'ready', ...place() });
}

quietly(() => {
  const script = document.currentScript;
  if (script instanceof HTMLScriptElement) start(window, script);
});
