// Whether the screen is a narrow one, as the styles see it.
import { useSyncExternalStore } from 'react';

const query = '(max-width: 760px)';

export function useSmall(): boolean {
  return useSyncExternalStore(
    (listener) => {
      const media = matchMedia(query);
      media.addEventListener('change', listener);
      return () => media.removeEventListener('change', listener);
    },
    () => matchMedia(query).matches,
  );
}
