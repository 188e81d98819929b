// A rectangle on a picture, drawn by pointer or keys. Pure.
import type { Rect, Size } from '../../bridge/messages';

export interface Point {
  x: number;
  y: number;
}

/** Smaller ones are slips of the hand. */
export const LEAST = 8;

const clamp = (value: number, least: number, most: number) => Math.min(Math.max(value, least), Math.max(least, most));

/** The rectangle between two points, in whole pixels within the bounds. */
export function between(a: Point, b: Point, bounds: Size): Rect {
  const left = clamp(Math.round(Math.min(a.x, b.x)), 0, bounds.width);
  const top = clamp(Math.round(Math.min(a.y, b.y)), 0, bounds.height);
  const right = clamp(Math.round(Math.max(a.x, b.x)), 0, bounds.width);
  const bottom = clamp(Math.round(Math.max(a.y, b.y)), 0, bounds.height);
  return { x: left, y: top, width: right - left, height: bottom - top };
}

export const isEnough = (rect: Rect): boolean => rect.width >= LEAST && rect.height >= LEAST;

export function moved(rect: Rect, by: Point, bounds: Size): Rect {
  return {
    ...rect,
    x: clamp(Math.round(rect.x + by.x), 0, bounds.width - rect.width),
    y: clamp(Math.round(rect.y + by.y), 0, bounds.height - rect.height),
  };
}

/** Moves the right and lower edge. */
export function resized(rect: Rect, by: Point, bounds: Size): Rect {
  return {
    ...rect,
    width: clamp(Math.round(rect.width + by.x), LEAST, bounds.width - rect.x),
    height: clamp(Math.round(rect.height + by.y), LEAST, bounds.height - rect.y),
  };
}

/** Where one begins by keys: the middle, half as large. */
export const middle = (bounds: Size): Rect =>
  between(
    { x: bounds.width / 4, y: bounds.height / 4 },
    { x: (bounds.width * 3) / 4, y: (bounds.height * 3) / 4 },
    bounds,
  );

export type Corner = 'nw' | 'ne' | 'sw' | 'se';

/** The corner that stays where it is while this one is pulled. */
export function opposite(rect: Rect, corner: Corner): Point {
  return {
    x: corner.endsWith('w') ? rect.x + rect.width : rect.x,
    y: corner.startsWith('n') ? rect.y + rect.height : rect.y,
  };
}

const ARROWS: Record<string, Point> = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: -1 },
  ArrowDown: { x: 0, y: 1 },
};

/** What an arrow key makes of it: moves by ten pixels, by one with Alt; with Shift it changes the size. */
export function afterKey(
  rect: Rect | null,
  key: { key: string; shiftKey: boolean; altKey: boolean },
  bounds: Size,
): Rect | null {
  const arrow = ARROWS[key.key];
  if (!arrow) return null;
  if (!rect) return middle(bounds);
  const step = key.altKey ? 1 : 10;
  const by = { x: arrow.x * step, y: arrow.y * step };
  return key.shiftKey ? resized(rect, by, bounds) : moved(rect, by, bounds);
}

/** From pixels on the screen to those of the page, which is shown smaller or as it is. */
export function toPage(rect: Rect, scale: number): Rect {
  const round = (value: number) => Math.round(value / scale);
  return { x: round(rect.x), y: round(rect.y), width: round(rect.width), height: round(rect.height) };
}
