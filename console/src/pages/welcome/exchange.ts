// The code of a welcome link: taken out of the address and of the history at once, and exchanged once.
import { type Session, welcome } from '../../api';

let exchange: Promise<Session> | null = null;

/** Takes the code from the address; null if there is none. */
export function takeCode(): string | null {
  const code = decodeURIComponent(location.hash.slice(1)).trim();
  if (!code) return null;
  history.replaceState(null, '', location.pathname + location.search);
  return code;
}

/** Exchanges the code of the address. The same answer for every call: React may ask twice, the code works once. */
export function exchangeCode(): Promise<Session> | null {
  const code = takeCode();
  if (code) exchange = welcome(code);
  return exchange;
}
