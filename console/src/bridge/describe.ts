// Values of the page in words, bounded. Reads no accessors and calls nothing of the page where that can be avoided.
import { apply, cut, getOwnPropertyDescriptor, isArray, keys, textOf } from './natives';

const MOST_KEYS = 10;
const MOST_VALUE = 200;
const replaceText = String.prototype.replace;
const includesText = String.prototype.includes;

/** What an error says: its message, and where it comes from. */
export function describeError(error: Error, most: number): string {
  const message = `${textOf(error.name, 100) || 'Error'}: ${textOf(error.message, most)}`;
  const stack = typeof error.stack === 'string' ? error.stack : '';
  // Chromium's stack begins with the message, others have the places alone.
  const text = stack && !apply(includesText, stack, [textOf(error.message, most)]) ? `${message}\n${stack}` : stack;
  return cut(text || message, most);
}

const isError = (value: unknown): value is Error => {
  try {
    return value instanceof Error;
  } catch {
    return false;
  }
};

function describeObject(value: object): string {
  const list = isArray(value);
  const names = keys(value);
  let text = '';
  for (let i = 0; i < names.length && i < MOST_KEYS; i++) {
    const name = names[i] as string;
    const field = getOwnPropertyDescriptor(value, name);
    const known = field && 'value' in field ? field.value : undefined;
    const word = isError(known)
      ? textOf(known.message, MOST_VALUE)
      : typeof known === 'object' && known !== null
        ? '{…}'
        : typeof known === 'string'
          ? `"${cut(known, MOST_VALUE)}"`
          : typeof known === 'function'
            ? 'function'
            : textOf(known, MOST_VALUE);
    text += `${i > 0 ? ', ' : ''}${list ? '' : `${cut(name, 100)}: `}${word}`;
  }
  if (names.length > MOST_KEYS) text += ', …';
  return list ? `[${text}]` : `{${text}}`;
}

export function describe(value: unknown, most: number): string {
  try {
    if (typeof value === 'string') return cut(value, most);
    if (isError(value)) return describeError(value, most);
    if (typeof value === 'function') return 'function';
    if (typeof value === 'object' && value !== null) return cut(describeObject(value), most);
    return textOf(value, most);
  } catch {
    return '';
  }
}

/** Arguments of `console.error` in one text: `%s` and its kin are filled in, `%c` styles nothing. */
export function describeAll(args: readonly unknown[], most: number): string {
  let next = 0;
  let text = '';
  const first = args[0];
  if (typeof first === 'string') {
    next = 1;
    text = apply(replaceText, cut(first, most), [
      /%([sdifoOc%])/g,
      (whole: string, kind: string) => {
        if (kind === '%') return '%';
        if (next >= args.length) return whole;
        const value = args[next++];
        return kind === 'c' ? '' : describe(value, most);
      },
    ]);
  }
  for (; next < args.length && text.length < most; next++) {
    text += (text && ' ') + describe(args[next], most);
  }
  return cut(text, most);
}
