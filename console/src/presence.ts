// Whether somebody looks at this page. One that is open and not used must not keep a sandbox from being idle.

const IDLE_MS = 2 * 60_000;

let lastInput = Date.now();
if (typeof window !== 'undefined') {
  for (const name of ['pointerdown', 'pointermove', 'keydown', 'wheel']) {
    window.addEventListener(name, touch, { passive: true, capture: true });
  }
}

/** Somebody does something where this window does not see it, as in a frame. */
export function touch(): void {
  lastInput = Date.now();
}

/** Whether the page is in sight and was used lately: within two minutes, if not said otherwise. */
export function isWatched(within = IDLE_MS): boolean {
  return document.visibilityState === 'visible' && Date.now() - lastInput < within;
}
