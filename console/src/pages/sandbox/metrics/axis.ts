// Times on an axis.
import { clock as clockOf, day } from '../../../format/time';

/** "14:02", or "12 Oct" where the axis spans days. `at` is in seconds. */
export function axisTime(at: number, span: number): string {
  const short = clockOf(at * 1000).slice(0, 5);
  if (span <= 2 * 86_400) return short;
  return span <= 8 * 86_400 && short !== '00:00' ? short : day(at * 1000);
}

/** "14:02:31", and the day where it is not today. */
export function clock(at: number): string {
  const today = day(at * 1000) === day(Date.now());
  return today ? clockOf(at * 1000) : `${day(at * 1000)} ${clockOf(at * 1000)}`;
}
