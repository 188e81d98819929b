// How long to wait before the next try.
const FIRST = 500;
const LONGEST = 10_000;

/** Milliseconds before try number `n`, from 0: doubles up to ten seconds, with half of it left to chance. */
export function backoff(n: number, random: () => number = Math.random): number {
  const whole = Math.min(LONGEST, FIRST * 2 ** Math.min(n, 10));
  return Math.round(whole / 2 + (whole / 2) * random());
}
