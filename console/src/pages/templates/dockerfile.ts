// What can be said about a Dockerfile before it is sent. Pure.

export const MOST_BYTES = 1024 * 1024;

export type Problem = 'empty' | 'large' | 'from' | null;

/** Instructions, with continued lines joined and comments left out. */
function instructions(text: string): string[] {
  const joined = text
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
    .join('\n')
    .replace(/\\[ \t]*\n/g, ' ');
  return joined.split('\n').map((line) => line.trim());
}

export function problemOf(text: string): Problem {
  if (!text.trim()) return 'empty';
  if (new TextEncoder().encode(text).length > MOST_BYTES) return 'large';
  const first = instructions(text).find((line) => line !== '' && !/^ARG\s/i.test(line));
  return first && /^FROM\s+\S/i.test(first) ? null : 'from';
}

/** Whether it copies files that stand beside it: those only the command line sends. */
export function needsFiles(text: string): boolean {
  return instructions(text).some(
    (line) => /^(COPY|ADD)\s/i.test(line) && !/\s--from=/i.test(line) && !/<<-?\w/.test(line),
  );
}

/** The name of a template: `alias` or `alias:tag`. */
export const NAME = /^[a-z0-9][a-z0-9_-]*(:[a-z0-9][a-z0-9._-]*)?$/;
