// Parts of the console that are loaded when they are needed.
import { type ComponentType, type LazyExoticComponent, lazy } from 'react';

/** The times between tries to reach the server, in milliseconds: one that is started again is away for some seconds. */
const WAITS = [300, 700, 1500, 3000, 5000];
/** How long after a reload the next failure is shown instead of reloading again, in milliseconds. */
const AGAIN = 30_000;
const RELOADED = 'cabana.reloaded';

// biome-ignore lint/suspicious/noExplicitAny: the properties of a part are its own.
type Part = ComponentType<any>;

/** The component that `load` imports; `pick` takes it from a module that has no default. */
export function lazyPart<M extends { default: Part }>(load: () => Promise<M>): LazyExoticComponent<M['default']>;
export function lazyPart<M, T extends Part>(load: () => Promise<M>, pick: (module: M) => T): LazyExoticComponent<T>;
export function lazyPart(
  load: () => Promise<unknown>,
  pick = (module: unknown) => (module as { default: Part }).default,
) {
  return lazy(async () => {
    try {
      return { default: pick(await load()) };
    } catch (failure) {
      await reloadOnce(failure);
      throw failure;
    }
  });
}

/**
 * Reloads the page when the server answers again, and does not return then. A browser remembers that a script failed for as long as the page
 * lives, and a server of another version has other scripts: importing again would not help.
 */
async function reloadOnce(failure: unknown): Promise<void> {
  const last = Number(sessionStorage.getItem(RELOADED) ?? 0);
  if (Date.now() - last < AGAIN) return;
  for (const wait of WAITS) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (!(await isUp())) continue;
    console.warn('A part of the console could not be loaded; reloading the page.', failure);
    sessionStorage.setItem(RELOADED, String(Date.now()));
    window.location.reload();
    await new Promise(() => {});
  }
}

async function isUp(): Promise<boolean> {
  try {
    return (await fetch('/health', { cache: 'no-store' })).ok;
  } catch {
    return false;
  }
}
