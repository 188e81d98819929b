// The browser's own functions, taken before the page can replace them.

export const { apply } = Reflect;
export const { defineProperty, getOwnPropertyDescriptor, keys } = Object;
export const { isArray } = Array;
export const now = Date.now;
const sliceText = String.prototype.slice;
const toText = String;

/** The first characters of a text. */
export const cut = (text: string, most: number): string =>
  text.length > most ? apply(sliceText, text, [0, most]) : text;

/** A value as text, whatever it is; hostile ones give nothing. */
export function textOf(value: unknown, most: number): string {
  try {
    return cut(toText(value), most);
  } catch {
    return '';
  }
}

/** Calls what must not stop the page. */
export function quietly(action: () => void): void {
  try {
    action();
  } catch {
    // The page goes on without it.
  }
}

/** At most `most` in `ms`; what is more is not allowed. */
export function budget(most: number, ms: number): (at: number) => boolean {
  let since = 0;
  let spent = 0;
  return (at) => {
    // A clock that was set back must not stop it for ever.
    if (at - since >= ms || at < since) {
      since = at;
      spent = 0;
    }
    spent += 1;
    return spent <= most;
  };
}

type Native = (...args: unknown[]) => unknown;
type Handler = (original: Native, self: unknown, args: unknown[]) => unknown;

/**
 * Puts a handler before a function. A proxy, so that name, length and text of the function stay what they were.
 * What the handler throws is thrown to the page: it calls the original outside of any `try`.
 */
export function wrap(owner: object, name: string, handler: Handler): void {
  quietly(() => {
    const described = getOwnPropertyDescriptor(owner, name);
    if (typeof described?.value !== 'function' || !described.configurable) return;
    const value = new Proxy(described.value, { apply: handler });
    defineProperty(owner, name, { ...described, value });
  });
}
