// An agent of Vercel's AI SDK with a sandbox of its own.
import { createMCPClient } from '@ai-sdk/mcp'
import { openai } from '@ai-sdk/openai'
import { generateText, stepCountIs } from 'ai'
import { Sandbox } from 'e2b'

const task = 'Write primes.py, which prints the sum of the primes below 100. Run it, and tell me what it prints.'

const sandbox = await Sandbox.create({ timeoutMs: 3_600_000 })
try {
  const cabana = await createMCPClient({
    transport: {
      type: 'http',
      url: `${process.env.E2B_API_URL}/mcp?sandbox=${sandbox.sandboxId}&tools=all`,
      headers: { Authorization: `Bearer ${process.env.E2B_API_KEY}` },
    },
  })
  const { text } = await generateText({
    model: openai('gpt-5.4'),
    system: 'Work in the sandbox.',
    prompt: task,
    tools: await cabana.tools(),
    stopWhen: stepCountIs(50),
  })
  console.log(text)
  await cabana.close()
} finally {
  await sandbox.kill()
}
