// Times and durations in words: "3 m", "1 h 02 m", "2 h ago", "12 Oct".
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const two = (value: number) => String(value).padStart(2, '0');

/** A duration in seconds, in one or two units. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return '–';
  const s = Math.max(0, seconds);
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10 && !Number.isInteger(s)) return `${s.toFixed(1)} s`;
  const whole = Math.floor(s);
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} m`;
  if (whole < DAY) {
    const minutes = Math.floor((whole % HOUR) / MINUTE);
    return minutes ? `${Math.floor(whole / HOUR)} h ${two(minutes)} m` : `${Math.floor(whole / HOUR)} h`;
  }
  const hours = Math.floor((whole % DAY) / HOUR);
  return hours && whole < 10 * DAY ? `${Math.floor(whole / DAY)} d ${hours} h` : `${Math.floor(whole / DAY)} d`;
}

/** A time in the past ("2 h ago", "12 Oct") or in the future ("in 41 m"). */
export function relative(time: string | number | Date, now: number = Date.now()): string {
  const at = new Date(time);
  const ms = at.getTime();
  if (Number.isNaN(ms)) return '–';
  const seconds = (now - ms) / 1000;
  if (Math.abs(seconds) < 5) return 'now';
  if (Math.abs(seconds) >= 7 * DAY) return day(at, now);
  const words = short(Math.abs(seconds));
  return seconds > 0 ? `${words} ago` : `in ${words}`;
}

/** The largest unit of a duration alone: "41 m", "2 h". */
export function short(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < MINUTE) return `${s} s`;
  if (s < HOUR) return `${Math.floor(s / MINUTE)} m`;
  if (s < DAY) return `${Math.floor(s / HOUR)} h`;
  return `${Math.floor(s / DAY)} d`;
}

/** "12 Oct", with the year where it is another one. */
export function day(time: string | number | Date, now: number = Date.now()): string {
  const at = new Date(time);
  const year = at.getFullYear() === new Date(now).getFullYear() ? '' : ` ${at.getFullYear()}`;
  return `${at.getDate()} ${MONTHS[at.getMonth()]}${year}`;
}

/** "14:02:31", local. */
export function clock(time: string | number | Date): string {
  const at = new Date(time);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** "2026-10-12 14:02:31 UTC". */
export function utc(time: string | number | Date): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return '–';
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}
