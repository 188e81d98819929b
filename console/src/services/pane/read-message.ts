// Messages of a framed page, checked field by field: the page is hostile. Pure.
import {
  type ErrorKind,
  type FromPage,
  MOST_ID,
  MOST_PIXELS,
  MOST_TEXT,
  type Place,
  type Rect,
  type Size,
  VERSION,
} from '../../bridge/messages';

type Fields = Record<string, unknown>;

const KINDS: ReadonlySet<unknown> = new Set<ErrorKind>(['uncaught', 'console', 'request']);
const FARTHEST = 1e7;
const MOST_BYTES = 24 * 1024 * 1024;
const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const text = (value: unknown, most = MOST_TEXT): string | null =>
  typeof value === 'string' ? value.slice(0, most) : null;

const number = (value: unknown, least: number, most: number): number | null =>
  typeof value === 'number' && value >= least && value <= most ? value : null;

const flag = (value: unknown): boolean | undefined => (typeof value === 'boolean' ? value : undefined);

function place(fields: Fields): Place | null {
  const path = text(fields.path);
  const title = text(fields.title);
  if (path === null || title === null || !path.startsWith('/')) return null;
  return { path, title, back: flag(fields.back), forward: flag(fields.forward) };
}

function size(value: unknown): Size | null {
  if (!isObject(value)) return null;
  const width = number(value.width, 1, FARTHEST);
  const height = number(value.height, 1, FARTHEST);
  return width === null || height === null ? null : { width, height };
}

function rect(value: unknown): Rect | null {
  const found = size(value);
  if (!found || !isObject(value)) return null;
  const x = number(value.x, 0, FARTHEST);
  const y = number(value.y, 0, FARTHEST);
  return x === null || y === null ? null : { x, y, ...found };
}

/** Width and height that the bytes of a PNG picture give; null if they are not one. */
export function pngSize(bytes: ArrayBuffer): Size | null {
  if (bytes.byteLength < 33) return null;
  const view = new DataView(bytes);
  if (SIGNATURE.some((byte, i) => view.getUint8(i) !== byte)) return null;
  // The first chunk: its length, IHDR, width, height.
  if (view.getUint32(8) !== 13 || view.getUint32(12) !== 0x49484452) return null;
  return { width: view.getUint32(16), height: view.getUint32(20) };
}

function captured(fields: Fields, id: string): FromPage | null {
  const { png } = fields;
  if (!(png instanceof ArrayBuffer) || png.byteLength > MOST_BYTES) return null;
  const path = text(fields.path);
  const dpr = number(fields.dpr, 0.001, 16);
  const area = rect(fields.rect);
  const viewport = size(fields.viewport);
  // What the bytes say counts: that much will be decoded.
  const real = pngSize(png);
  if (!path?.startsWith('/') || dpr === null || !area || !viewport || !real) return null;
  if (real.width < 1 || real.height < 1 || real.width * real.height > MOST_PIXELS) return null;
  return { type: 'captured', id, path, png, ...real, dpr, rect: area, viewport };
}

/** The message, with nothing in it that was not checked; null if it is none. */
export function readMessage(data: unknown): FromPage | null {
  if (!isObject(data) || data.cabana !== VERSION) return null;
  switch (data.type) {
    case 'ready':
    case 'location': {
      const found = place(data);
      return found && { type: data.type, ...found };
    }
    case 'scroll': {
      const x = number(data.x, -FARTHEST, FARTHEST);
      const y = number(data.y, -FARTHEST, FARTHEST);
      return x === null || y === null ? null : { type: 'scroll', x, y };
    }
    case 'error': {
      const words = text(data.text);
      if (words === null || !KINDS.has(data.kind)) return null;
      const source = text(data.source) ?? undefined;
      return { type: 'error', kind: data.kind as ErrorKind, text: words, source };
    }
    case 'captured':
    case 'capture_failed': {
      if (typeof data.id !== 'string' || data.id.length > MOST_ID) return null;
      if (data.type === 'captured') return captured(data, data.id);
      return { type: 'capture_failed', id: data.id, reason: text(data.reason, 500) ?? '' };
    }
    default:
      return null;
  }
}
