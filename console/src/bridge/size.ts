// Which part of the viewport is drawn, and how large. Pure.
import type { Rect, Size } from './messages';

const finite = (value: unknown): number => (typeof value === 'number' && Number.isFinite(value) ? value : 0);

/** A rectangle in whole pixels within the viewport; all of it, if none is asked for. At least one pixel. */
export function within(viewport: Size, rect?: Partial<Rect> | null): Rect {
  if (typeof rect !== 'object' || rect === null) return { x: 0, y: 0, ...viewport };
  const x = Math.min(Math.max(0, Math.floor(finite(rect.x))), viewport.width - 1);
  const y = Math.min(Math.max(0, Math.floor(finite(rect.y))), viewport.height - 1);
  const right = Math.min(viewport.width, Math.ceil(finite(rect.x) + finite(rect.width)));
  const bottom = Math.min(viewport.height, Math.ceil(finite(rect.y) + finite(rect.height)));
  return { x, y, width: Math.max(1, right - x), height: Math.max(1, bottom - y) };
}

/** The largest scale up to the screen's with which a picture of this size has at most `most` pixels. */
export function scaleFor(size: Size, screen: number, most: number): number {
  const wanted = screen > 0 && Number.isFinite(screen) ? Math.min(screen, 4) : 1;
  const limit = Math.sqrt(most / (size.width * size.height));
  if (wanted <= limit) return wanted;
  // Sizes are rounded up to whole pixels.
  return Math.min(limit, Math.sqrt(most / ((size.width + 1 / limit) * (size.height + 1 / limit))));
}
