// Vite plugin: `virtual:licences` has name, version, licence and licence file of each package that ships in the console.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Plugin } from 'vite';

const ID = 'virtual:licences';
const FILE = /^(licen[cs]e|copying)([.-].*)?$/i;
const MOST_CHARACTERS = 40_000;

interface Manifest {
  name?: string;
  version?: string;
  license?: string | { type?: string };
  author?: string | { name?: string };
  dependencies?: Record<string, string>;
}

const read = (directory: string): Manifest => JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));

/** Where a package that `from` depends on is: nearest first, as Node looks for it. */
function find(name: string, from: string, root: string): string | null {
  for (let directory = from; ; directory = dirname(directory)) {
    const place = join(directory, 'node_modules', name);
    if (existsSync(join(place, 'package.json'))) return place;
    if (directory === root || directory === dirname(directory)) return null;
  }
}

/** Directories of all packages that the production dependencies need. */
function shipped(root: string): string[] {
  const found = new Set<string>();
  const open = [root];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const name of Object.keys(read(at).dependencies ?? {})) {
      const place = find(name, at, root);
      // Packages of types alone put nothing into the console.
      if (!place || found.has(place) || name.startsWith('@types/')) continue;
      found.add(place);
      open.push(place);
    }
  }
  return [...found];
}

function licenceText(directory: string): string | null {
  const file = readdirSync(directory).find((name) => FILE.test(name));
  return file ? readFileSync(join(directory, file), 'utf8').slice(0, MOST_CHARACTERS).trim() : null;
}

export function collect(root: string) {
  const texts: string[] = [];
  const packages = shipped(root).map((directory) => {
    const { name = '', version = '', license, author } = read(directory);
    const text = licenceText(directory);
    if (text !== null && !texts.includes(text)) texts.push(text);
    return {
      name,
      version,
      licence: (typeof license === 'string' ? license : license?.type) ?? 'unknown',
      author: ((typeof author === 'string' ? author : author?.name) ?? '').replace(/\s*[<(].*$/, ''),
      text: text === null ? null : texts.indexOf(text),
    };
  });
  packages.sort((a, b) => a.name.localeCompare(b.name) || a.version.localeCompare(b.version));
  return { packages, texts };
}

export function licences(): Plugin {
  let root = process.cwd();
  return {
    name: 'cabana-licences',
    configResolved(config) {
      root = config.root;
    },
    resolveId: (id) => (id === ID ? `\0${ID}` : null),
    load(id) {
      if (id !== `\0${ID}`) return null;
      const { packages, texts } = collect(root);
      return `export const packages = ${JSON.stringify(packages)};\nexport const texts = ${JSON.stringify(texts)};\n`;
    },
  };
}
