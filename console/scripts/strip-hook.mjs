// Module hooks: finds `./name` as `./name.ts`, and removes the types of what is loaded.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { transformWithOxc } from 'vite';

export async function resolve(specifier, context, next) {
  if (specifier.startsWith('.') && context.parentURL && !/\.[cm]?[jt]sx?$|\.json$/.test(specifier)) {
    for (const end of ['.ts', '.tsx', '/index.ts']) {
      const url = new URL(specifier + end, context.parentURL);
      if (existsSync(fileURLToPath(url))) return { url: url.href, shortCircuit: true };
    }
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !/\.tsx?$/.test(url)) return next(url, context);
  const path = fileURLToPath(url);
  const { code } = await transformWithOxc(await readFile(path, 'utf8'), path, { sourcemap: false });
  return { format: 'module', source: code, shortCircuit: true };
}
