// Sizes in words: "1.9 GiB", "640 MiB", "12 B".
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(value: number): string {
  if (!Number.isFinite(value) || value < 0) return '–';
  let unit = 0;
  let rest = value;
  while (rest >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  if (unit > 0 && Math.round(rest) >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || rest >= 100 || Number.isInteger(rest) ? 0 : rest >= 10 ? 0 : 1;
  return `${rest.toFixed(digits).replace(/\.0$/, '')} ${UNITS[unit]}`;
}

/** Of a number of MiB, which is what the API counts memory and disks in. */
export const mib = (value: number): string => bytes(value * 1024 * 1024);

export function percent(part: number, whole: number): string {
  if (!(whole > 0)) return '–';
  return `${Math.round((part / whole) * 100)} %`;
}

export function count(value: number): string {
  return value.toLocaleString('en-US').replaceAll(',', '\u202f');
}

/** "1 sandbox", "2 sandboxes". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
