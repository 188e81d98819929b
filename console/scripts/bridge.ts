// Builds dist/bridge: the scripts for pages in frames of the console. Each is one classic script without imports, since
// it is added to pages of others. Run after `vite build`.
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import { compress } from './compress.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const names = ['capture', 'bridge'];

for (const name of names) {
  const last = name === names.at(-1);
  await build({
    root,
    configFile: false,
    publicDir: false,
    logLevel: 'warn',
    plugins: last ? [compress()] : [],
    build: {
      outDir: 'dist/bridge',
      emptyOutDir: false,
      target: 'es2020',
      sourcemap: false,
      lib: { entry: `src/bridge/${name}.ts`, formats: ['iife'], name: 'unused', fileName: () => `${name}.js` },
    },
  });
}
