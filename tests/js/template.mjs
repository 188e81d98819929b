// Helpers for tests of templates: names, and sandboxes of templates.
import { randomBytes } from 'node:crypto'
import { after } from 'node:test'
import { Sandbox } from 'e2b'

const API = { url: process.env.E2B_API_URL ?? `https://api.${process.env.E2B_DOMAIN}`, key: process.env.E2B_API_KEY }
const made = []
// A unique name; its template is deleted at the end.
export const name = (stem) => {
  made.push(`${stem}-${randomBytes(4).toString('hex')}`)
  return made.at(-1)
}
after(async () => {
  for (const alias of made) {
    const headers = { 'X-API-KEY': API.key }
    const found = await fetch(`${API.url}/templates/aliases/${alias}`, { headers })
    if (found.ok) await fetch(`${API.url}/templates/${(await found.json()).templateID}`, { method: 'DELETE', headers })
  }
})

// With a sandbox of this template.
export async function inside(template, use) {
  const sandbox = await Sandbox.create(template, { timeoutMs: 120_000 })
  try {
    return await use(sandbox)
  } finally {
    await sandbox.kill()
  }
}
// Output lines of a command run as root.
export const shown = async (sandbox, command) => (await sandbox.commands.run(command, { user: 'root' })).stdout.split('\n').slice(0, -1)
