// Lets Node run TypeScript files on versions that cannot do it alone. `node --import ./scripts/strip.mjs file.ts`
import { register } from 'node:module';

register('./strip-hook.mjs', import.meta.url);
