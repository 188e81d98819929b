// Where the page is: path, title, and whether its history goes on. Follows changes without a new document.
import { MOST_TEXT, type Place } from './messages';
import { apply, cut, quietly, textOf, wrap } from './natives';

const SETTLE_MS = 100;

/** Calls `changed` some time after something may have changed; many changes at once are one. */
export function watchPlace(scope: Window & typeof globalThis, changed: (place: Place) => void): () => Place {
  const { location, document, setTimeout: later } = scope;
  const navigation = 'navigation' in scope ? scope.navigation : undefined;
  let told = '';
  let waits = false;

  function place(): Place {
    const found: Place = {
      path: cut(location.pathname + location.search + location.hash, MOST_TEXT),
      title: cut(textOf(document.title, MOST_TEXT), MOST_TEXT),
    };
    quietly(() => {
      if (!navigation) return;
      found.back = navigation.canGoBack;
      found.forward = navigation.canGoForward;
    });
    return found;
  }
  function look(): void {
    waits = false;
    quietly(() => {
      const found = place();
      const text = `${found.path}\n${found.title}\n${found.back}${found.forward}`;
      if (text === told) return;
      told = text;
      changed(found);
    });
  }
  function soon(): void {
    if (waits) return;
    waits = true;
    apply(later, scope, [look, SETTLE_MS]);
  }

  if (navigation) {
    navigation.addEventListener('currententrychange', soon);
  } else {
    for (const name of ['pushState', 'replaceState']) {
      wrap(scope.History.prototype, name, (original, self, args) => {
        const result = apply(original, self, args);
        quietly(soon);
        return result;
      });
    }
  }
  for (const name of ['popstate', 'hashchange', 'load', 'pageshow']) scope.addEventListener(name, soon);
  document.addEventListener('DOMContentLoaded', () =>
    quietly(() => {
      soon();
      // The title is set by scripts too.
      const options = { subtree: true, childList: true, characterData: true };
      if (document.head) new scope.MutationObserver(soon).observe(document.head, options);
    }),
  );
  return place;
}
