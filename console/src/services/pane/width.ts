// Width presets of the frame. Pure.
import type { Size } from '../../bridge/messages';

export const WIDTHS = { phone: 390, tablet: 820, full: null } as const;
export type Width = keyof typeof WIDTHS;

export const isWidth = (value: unknown): value is Width => typeof value === 'string' && Object.hasOwn(WIDTHS, value);

export interface Fit extends Size {
  /** The frame is that large, and shown smaller by this where it does not fit. */
  scale: number;
}

/** The size of the frame on a stage of this size. */
export function fit(width: Width, stage: Size): Fit {
  const wanted = WIDTHS[width];
  if (wanted === null || stage.width <= 0) return { ...stage, scale: 1 };
  const scale = Math.min(1, stage.width / wanted);
  return { width: wanted, height: Math.round(stage.height / scale), scale };
}
