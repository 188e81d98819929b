// Tells errors that the page did not catch, and what it prints by `console.error`.
import { describe, describeAll, describeError } from './describe';
import { MOST_TEXT, type PageError } from './messages';
import { apply, cut, quietly, textOf, wrap } from './natives';
import { shortAddress } from './requests';

const startsWith = String.prototype.startsWith;
// Harmless, and frequent on pages that measure themselves.
const NOISE = 'ResizeObserver loop';

export function watchErrors(scope: Window & typeof globalThis, tell: (error: PageError) => void): void {
  const { origin } = scope.location;
  scope.addEventListener('error', (event) =>
    quietly(() => {
      if (event.target !== scope) return;
      const message = textOf(event.message, MOST_TEXT);
      if (apply(startsWith, message, [NOISE])) return;
      const file = event.filename ? shortAddress(textOf(event.filename, 4096), origin) : '';
      const text = event.error instanceof scope.Error ? describeError(event.error, MOST_TEXT) : message;
      tell({ kind: 'uncaught', text, source: file ? `${file}:${event.lineno}:${event.colno}` : undefined });
    }),
  );
  scope.addEventListener('unhandledrejection', (event) =>
    quietly(() => tell({ kind: 'uncaught', text: cut(`Unhandled: ${describe(event.reason, MOST_TEXT)}`, MOST_TEXT) })),
  );
  let inside = false;
  wrap(scope.console, 'error', (original, self, args) => {
    const result = apply(original, self, args);
    // What is described may print by itself.
    if (!inside) {
      inside = true;
      quietly(() => tell({ kind: 'console', text: describeAll(args, MOST_TEXT) }));
      inside = false;
    }
    return result;
  });
}
