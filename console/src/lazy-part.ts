// Parts of the console that are loaded when they are needed.
import { type ComponentType, type LazyExoticComponent, lazy } from 'react';

/** How long a browser needs at most to notice that the network is there again. */
const RETRY_MS = 700;

/** A browser drops requests when an interface of its machine comes or goes, as with every sandbox on the same machine. So a part gets another try. */
// biome-ignore lint/suspicious/noExplicitAny: the properties of a part are its own.
export function lazyPart<T extends ComponentType<any>>(load: () => Promise<{ default: T }>): LazyExoticComponent<T> {
  const again = async (): Promise<{ default: T }> => {
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    return load();
  };
  return lazy(() => load().catch(again));
}
