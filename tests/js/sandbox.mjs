// Helpers of all JS tests: a new sandbox that is killed afterwards, and waiting with a deadline. The SDK finds the server by E2B_API_URL,
// E2B_SANDBOX_URL and E2B_API_KEY.
import { Sandbox } from 'e2b'

export async function withSandbox(use, options = {}) {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000, ...options })
  try {
    return await use(sandbox)
  } finally {
    await sandbox.kill()
  }
}

export async function eventually(check, withinMs = 10_000) {
  const deadline = Date.now() + withinMs
  for (;;) {
    const answer = await check()
    if (answer) return answer
    if (Date.now() > deadline) throw new Error(`did not hold within ${withinMs} ms; last: ${answer}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
