// What a program was started with. Pure.
import { quote } from '../../../format/snippet';

export interface Started {
  command: string;
  cwd: string;
}

/** Reads a line with a directory, and one for each argument; null if they are none. */
export function parseStarted(output: string): Started | null {
  const [cwd = '', ...rest] = output.split('\n');
  const words = rest.join('\n').replace(/\n+$/, '').split('\n');
  if (!cwd.startsWith('/') || !words[0]) return null;
  return { cwd, command: words.map(quote).join(' ') };
}
