// Vite plugin: leaves out the translations that come with the component library. The console speaks English, and
// thirty languages would be a third of the first load.
import type { Plugin } from 'vite';

const TRANSLATION = /[\\/](?:intl|dist)[\\/](?:.*[\\/])?([a-z]{2}-[A-Z]{2})\.(?:m?js|json)$/;

export function onlyEnglish(): Plugin {
  return {
    name: 'cabana-only-english',
    apply: 'build',
    enforce: 'pre',
    load(id) {
      const language = TRANSLATION.exec(id)?.[1];
      if (!id.includes('node_modules') || !language || language === 'en-US') return null;
      return { code: 'export default {};', moduleType: 'js' };
    },
  };
}
