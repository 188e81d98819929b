// Loads what draws the page, on the first capture, and calls it.
import type { Captured, Rect } from './messages';
import { apply, quietly, textOf } from './natives';

export type Render = (rect?: Rect) => Promise<Captured>;

/** By an event of this name, the script hands its function to the element that loaded it. No global is needed. */
export const HANDOVER = 'cabana-render';
const ADDRESS = '/.cabana/capture.js';
const MOST_MS = 9_500;

export function renderer(scope: Window & typeof globalThis, nonce: string): Render {
  const { document, Promise: NativePromise, Error: NativeError, setTimeout: later, clearTimeout: never } = scope;
  let loaded: Promise<Render> | null = null;

  function load(): Promise<Render> {
    return new NativePromise<Render>((resolve, reject) => {
      const script = document.createElement('script');
      const done = () => quietly(() => script.remove());
      script.addEventListener(HANDOVER, (event) => resolve((event as CustomEvent<Render>).detail));
      script.addEventListener('load', () => {
        done();
        reject(new NativeError('the script that draws the page did not run'));
      });
      script.addEventListener('error', () => {
        done();
        reject(new NativeError('the script that draws the page could not be loaded'));
      });
      if (nonce) script.nonce = nonce;
      // With the origin: the page may have a <base> elsewhere.
      script.src = scope.location.origin + ADDRESS;
      (document.head ?? document.documentElement).append(script);
    });
  }

  async function render(rect?: Rect): Promise<Captured> {
    loaded ??= load();
    const draw = await loaded.catch((error: unknown) => {
      loaded = null;
      throw error;
    });
    return draw(rect);
  }

  return (rect) =>
    new NativePromise((resolve, reject) => {
      const fail = (reason: string) => reject(new NativeError(reason));
      const timer = apply(later, scope, [() => fail('it took longer than 10 s'), MOST_MS]);
      render(rect).then(
        (captured) => {
          apply(never, scope, [timer]);
          resolve(captured);
        },
        (error: unknown) => {
          apply(never, scope, [timer]);
          fail(textOf((error as Error | null)?.message, 300) || 'the page could not be drawn');
        },
      );
    });
}
