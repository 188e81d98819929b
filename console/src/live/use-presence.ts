// Tells the server that somebody looks at a service, so that its sandbox does not fall asleep meanwhile.
import { useEffect } from 'react';
import { isWatched } from '../presence';
import { live } from '.';

const EVERY_MS = 60_000;
const LOOK_MS = 5_000;
const TOUCHED_MS = 5 * 60_000;

/** Every minute while the page is in sight and was used within five. `null`: nothing is looked at. */
export function usePresence(serviceId: string | null): void {
  useEffect(() => {
    if (serviceId === null) return;
    let last = 0;
    const look = () => {
      if (Date.now() - last < EVERY_MS || !isWatched(TOUCHED_MS)) return;
      if (live.presence(serviceId)) last = Date.now();
    };
    look();
    const timer = setInterval(look, LOOK_MS);
    document.addEventListener('visibilitychange', look);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }, [serviceId]);
}
