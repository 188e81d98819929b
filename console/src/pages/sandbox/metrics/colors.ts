// Colours of the theme as canvases want them.
import { useSyncExternalStore } from 'react';

const NAMES = [
  'chart-1',
  'chart-2',
  'chart-3',
  'chart-4',
  'chart-5',
  'chart-6',
  'chart-grid',
  'text-3',
  'line-field',
  'failed',
  'paused',
] as const;
export type Colors = Record<(typeof NAMES)[number], string>;

/** Tokens are `light-dark(…)`: only an element knows which of the two it is. */
export function readColors(): Colors {
  const probe = document.createElement('i');
  document.body.append(probe);
  const colors = Object.fromEntries(
    NAMES.map((name) => {
      probe.style.color = `var(--${name})`;
      return [name, getComputedStyle(probe).color];
    }),
  ) as Colors;
  probe.remove();
  return colors;
}

function subscribe(listener: () => void): () => void {
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  const media = matchMedia('(prefers-color-scheme: dark)');
  media.addEventListener('change', listener);
  return () => {
    observer.disconnect();
    media.removeEventListener('change', listener);
  };
}

/** A value that is another one in each theme. */
export function useTheme(): string {
  return useSyncExternalStore(subscribe, () => {
    const { theme } = document.documentElement.dataset;
    return theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  });
}

/** The same colour, thinner. */
export const thin = (color: string, part: number): string => `color-mix(in srgb, ${color} ${part * 100}%, transparent)`;
