// The shortest programs that use a sandbox.
const origin = () => (typeof location === 'undefined' ? 'http://127.0.0.1:3000' : location.origin);

export const pythonSnippet = `from e2b import Sandbox
box = Sandbox.create()
print(box.commands.run("uname -a").stdout)`;

export const javascriptSnippet = `import { Sandbox } from 'e2b';
const box = await Sandbox.create();
console.log((await box.commands.run('uname -a')).stdout);`;

/** Settings that point E2B's SDKs to this server. */
export const environment = (key = 'e2b_…') => `export E2B_API_URL=${origin()}
export E2B_SANDBOX_URL=${origin()}
export E2B_API_KEY=${key}`;
