// What the console and a page in its frame say to each other by postMessage. Everything from a page is hostile.

export interface Size {
  width: number;
  height: number;
}

export interface Rect extends Size {
  x: number;
  y: number;
}

/** Where a page is, and whether its history goes further, if the browser tells. */
export interface Place {
  path: string;
  title: string;
  back?: boolean;
  forward?: boolean;
}

/** Thrown or rejected and not caught; printed by `console.error`; a request that failed. */
export type ErrorKind = 'uncaught' | 'console' | 'request';

export interface PageError {
  kind: ErrorKind;
  text: string;
  /** File, line and column. */
  source?: string;
}

export interface Captured extends Size {
  png: ArrayBuffer;
  /** Pixels of the picture for one of the page. */
  dpr: number;
  /** What is in the picture, in pixels of the page's viewport. */
  rect: Rect;
  viewport: Size;
}

export type ToPage =
  | { type: 'hello' }
  | { type: 'capture'; id: string; rect?: Rect }
  | { type: 'navigate'; path: string }
  | { type: 'reload' }
  | { type: 'back' }
  | { type: 'forward' };

export type FromPage =
  | ({ type: 'ready' } & Place)
  | ({ type: 'location' } & Place)
  | { type: 'scroll'; x: number; y: number }
  | ({ type: 'error' } & PageError)
  | ({ type: 'captured'; id: string; path: string } & Captured)
  | { type: 'capture_failed'; id: string; reason: string };

/** The version of these messages: each has it as `cabana`. */
export const VERSION = 1;
/** Characters of any text in them. */
export const MOST_TEXT = 2000;
/** Characters of the id of a capture. */
export const MOST_ID = 64;
/** Pixels of a picture. */
export const MOST_PIXELS = 4_000_000;
