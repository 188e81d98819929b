// How terminals colour text (SGR), in the colours of the theme. Pure.

/** A colour of the theme; `white` is the secondary text, `dim` the faintest. */
export type Colour = 'black' | 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'cyan' | 'white' | 'dim';

export interface Style {
  readonly fg: Colour | null;
  readonly bg: Colour | null;
  readonly bold: boolean;
  readonly dim: boolean;
  readonly italic: boolean;
  readonly underline: boolean;
  readonly inverse: boolean;
  readonly strike: boolean;
}

export const PLAIN: Style = {
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  inverse: false,
  strike: false,
};

const EIGHT: readonly Colour[] = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const MOST_CODES = 32;

/** The style after `ESC [ … m`. What is not known changes nothing. */
export function styled(style: Style, params: string): Style {
  if (!/^[\d;:]*$/.test(params)) return style;
  const codes = params.split(/[;:]/).slice(0, MOST_CODES).map(Number);
  let now: Style = style;
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!;
    if (code === 38 || code === 48 || code === 58) {
      const [colour, used] = extended(codes.slice(i + 1, i + 6));
      i += used;
      if (code !== 58 && colour !== undefined) now = { ...now, [code === 38 ? 'fg' : 'bg']: colour };
    } else {
      now = simple(now, code);
    }
  }
  return now;
}

function simple(style: Style, code: number): Style {
  if (code === 0) return PLAIN;
  if (code >= 30 && code <= 37) return { ...style, fg: EIGHT[code - 30]! };
  if (code >= 40 && code <= 47) return { ...style, bg: EIGHT[code - 40]! };
  // Bright black is what programs print faint text in.
  if (code >= 90 && code <= 97) return { ...style, fg: code === 90 ? 'dim' : EIGHT[code - 90]! };
  if (code >= 100 && code <= 107) return { ...style, bg: code === 100 ? 'dim' : EIGHT[code - 100]! };
  switch (code) {
    case 1:
      return { ...style, bold: true };
    case 2:
      return { ...style, dim: true };
    case 3:
      return { ...style, italic: true };
    case 4:
    case 21:
      return { ...style, underline: true };
    case 7:
      return { ...style, inverse: true };
    case 9:
      return { ...style, strike: true };
    case 22:
      return { ...style, bold: false, dim: false };
    case 23:
      return { ...style, italic: false };
    case 24:
      return { ...style, underline: false };
    case 27:
      return { ...style, inverse: false };
    case 29:
      return { ...style, strike: false };
    case 39:
      return { ...style, fg: null };
    case 49:
      return { ...style, bg: null };
    default:
      return style;
  }
}

/** `5;N` and `2;R;G;B`: the colour, if it is one, and how many codes it took. */
function extended(codes: number[]): [Colour | null | undefined, number] {
  if (codes[0] === 5) return [ofTable(codes[1] ?? -1), 2];
  if (codes[0] === 2) return [nearest(codes[1] ?? 0, codes[2] ?? 0, codes[3] ?? 0), 4];
  return [undefined, 0];
}

function ofTable(index: number): Colour | null | undefined {
  if (index < 0 || index > 255 || !Number.isInteger(index)) return undefined;
  if (index < 16) return index === 8 ? 'dim' : EIGHT[index % 8]!;
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return nearest(grey, grey, grey);
  }
  const level = (part: number) => (part === 0 ? 0 : 55 + part * 40);
  const cube = index - 16;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

/** By hue alone, so that every colour that a program thinks of can be read in both themes. */
function nearest(red: number, green: number, blue: number): Colour | null {
  const most = Math.max(red, green, blue);
  const least = Math.min(red, green, blue);
  const span = most - least;
  if (span < 28) return most < 48 ? 'black' : most < 170 ? 'dim' : null;
  const hue =
    most === red
      ? ((green - blue) / span + 6) % 6
      : most === green
        ? (blue - red) / span + 2
        : (red - green) / span + 4;
  if (hue < 0.45 || hue >= 5.6) return 'red';
  if (hue < 1.25) return 'yellow';
  if (hue < 2.5) return 'green';
  if (hue < 3.4) return 'cyan';
  return hue < 4.3 ? 'blue' : 'magenta';
}

/** Names of classes in ansi.module.css. */
export function classesOf(style: Style): string[] {
  const names: string[] = [];
  const ground = style.inverse ? (style.fg ?? 'white') : style.bg;
  if (ground) names.push(`on-${ground}`);
  else if (style.fg && style.fg !== 'black') names.push(style.fg);
  else if (style.dim) names.push('dim');
  if (style.bold) names.push('bold');
  if (style.italic) names.push('italic');
  if (style.underline && style.strike) names.push('both');
  else if (style.underline) names.push('underline');
  else if (style.strike) names.push('strike');
  return names;
}
