// Fails if the first load (the entry and what it imports statically), or the script that is added to framed pages, is
// larger than its budget. Needs `npm run build`.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

interface Chunk {
  file: string;
  isEntry?: boolean;
  isDynamicEntry?: boolean;
  imports?: string[];
  css?: string[];
}

const BUDGET = 250 * 1024;
const BRIDGE_BUDGET = 6 * 1024;
const dist = new URL('../dist/', import.meta.url);
const manifest: Record<string, Chunk> = JSON.parse(readFileSync(new URL('.vite/manifest.json', dist), 'utf8'));
const size = (file: string) => gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length;
const kib = (bytes: number) => `${(bytes / 1024).toFixed(1).padStart(7)} KiB`;

const first = new Set<string>();
function visit(key: string): void {
  const chunk = manifest[key];
  if (!chunk || first.has(chunk.file)) return;
  first.add(chunk.file);
  for (const name of chunk.imports ?? []) visit(name);
}
for (const [key, chunk] of Object.entries(manifest)) if (chunk.isEntry) visit(key);

const styles = new Set(Object.values(manifest).flatMap((c) => (first.has(c.file) ? (c.css ?? []) : [])));
const total = [...first].reduce((sum, file) => sum + size(file), 0);
const later = [...new Set(Object.values(manifest).map((c) => c.file))].filter(
  (f) => f.endsWith('.js') && !first.has(f),
);

console.log('first load, gzipped:');
for (const file of first) console.log(`  ${kib(size(file))}  ${file}`);
for (const file of styles) console.log(`  ${kib(size(file))}  ${file} (style, not counted)`);
console.log(`  ${kib(total)}  script in all; the budget is ${kib(BUDGET).trim()}`);
console.log('largest later chunks:');
const sizes = later.map((file) => ({ file, bytes: size(file) })).sort((a, b) => b.bytes - a.bytes);
for (const { file, bytes } of sizes.slice(0, 8)) console.log(`  ${kib(bytes)}  ${file}`);
if (total > BUDGET) {
  console.error(`error: the first load is ${kib(total - BUDGET).trim()} over its budget`);
  console.error('\nhint: import large libraries with import() in the page that needs them');
  process.exit(1);
}

const bridge = size('bridge/bridge.js');
console.log(`added to framed pages: ${kib(bridge).trim()}; the budget is ${kib(BRIDGE_BUDGET).trim()}`);
if (bridge > BRIDGE_BUDGET) {
  console.error(`error: bridge/bridge.js is ${kib(bridge - BRIDGE_BUDGET).trim()} over its budget`);
  process.exit(1);
}
