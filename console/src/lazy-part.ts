// Parts of the console that are loaded when they are needed.
import { type ComponentType, type LazyExoticComponent, lazy } from 'react';

/**
 * The times between tries, in milliseconds. A browser drops requests when an interface of its machine comes or goes, as with every sandbox
 * on the same machine; and a server that is started again is away for some seconds.
 */
const WAITS = [700, 1500, 3000, 5000];

// biome-ignore lint/suspicious/noExplicitAny: the properties of a part are its own.
export function lazyPart<T extends ComponentType<any>>(load: () => Promise<{ default: T }>): LazyExoticComponent<T> {
  return lazy(async () => {
    for (const wait of WAITS) {
      try {
        return await load();
      } catch {
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
    return load();
  });
}
