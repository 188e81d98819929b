import react from '@vitejs/plugin-react';
import { defineConfig, type ProxyOptions } from 'vite';
import { compress } from './scripts/compress.ts';
import { licences } from './scripts/licences.ts';
import { onlyEnglish } from './scripts/only-english.ts';

const server = process.env.CABANA_DEV_SERVER ?? 'http://127.0.0.1:3000';
const key = process.env.CABANA_DEV_KEY;

// In development the API is behind the same origin, as it is when Cabana serves the console.
const api: ProxyOptions = {
  target: server,
  ws: true,
  headers: { origin: server, ...(key ? { 'X-API-KEY': key } : {}) },
};

export default defineConfig({
  base: '/console/',
  plugins: [react(), onlyEnglish(), licences(), compress()],
  server: { port: 5173, host: '127.0.0.1', proxy: { '^/(?!console(/|$)).+': api } },
  build: {
    target: 'es2023',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    manifest: true,
    sourcemap: false,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1024,
  },
  css: { modules: { generateScopedName: '[name]-[local]-[hash:base64:5]' } },
});
