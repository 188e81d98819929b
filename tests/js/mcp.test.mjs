// MCP with the JS SDK, which speaks the revisions before the current one, over HTTP and over `cabana mcp`. It also checks what the MCP
// inspector checks: that every list can be read, that results fit the schemas, and that errors are where the protocol wants them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { SUPPORTED_PROTOCOL_VERSIONS, CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { eventually, withSandbox } from './sandbox.mjs'

// With TLS there is a domain instead of a URL, and an authority to trust.
const url = process.env.E2B_API_URL ?? `https://api.${process.env.E2B_DOMAIN}`
const trust = process.env.SSL_CERT_FILE ? { SSL_CERT_FILE: process.env.SSL_CERT_FILE } : {}
const key = process.env.E2B_API_KEY
const program = process.env.CABANA_TEST_BINARY ?? new URL('../../target/release/cabana', import.meta.url).pathname
// 2024-10-07 was never published as a revision.
const versions = SUPPORTED_PROTOCOL_VERSIONS.filter((version) => version !== '2024-10-07')

const transports = {
  http: (sandbox) => {
    const at = new URL(`${url}/mcp`)
    if (sandbox) at.searchParams.set('sandbox', sandbox)
    return new StreamableHTTPClientTransport(at, { requestInit: { headers: { Authorization: `Bearer ${key}` } } })
  },
  stdio: (sandbox) =>
    new StdioClientTransport({
      command: program,
      args: ['mcp', ...(sandbox ? ['--sandbox', sandbox] : [])],
      env: { CABANA_API_URL: url, CABANA_API_KEY: key, HOME: process.env.HOME ?? '/root', ...trust },
    }),
}

// A client that asks for a revision; the SDK itself always asks for its newest.
async function withClient(kind, version, sandbox, use) {
  const transport = transports[kind](sandbox)
  const send = transport.send.bind(transport)
  transport.send = (message, options) => {
    if (message.method === 'initialize') message.params.protocolVersion = version
    return send(message, options)
  }
  const client = new Client({ name: 'test', version: '1' })
  client.onerror = () => {}
  await client.connect(transport)
  try {
    return await use(client, transport)
  } finally {
    await client.close()
  }
}

const run = async (client, command, options) => {
  const result = await client.callTool({ name: 'sandbox_run_command', arguments: { command } }, CallToolResultSchema, options)
  return result.content[0].text.trimEnd()
}

for (const kind of Object.keys(transports)) {
  for (const version of versions) {
    test(`${kind} ${version}: lists, calls and errors`, () =>
      withSandbox((sandbox) =>
        withClient(kind, version, sandbox.sandboxId, async (client) => {
          assert.equal(client.getServerVersion().name, 'cabana')
          assert.deepEqual(client.getServerCapabilities(), { tools: {} })
          assert.match(client.getInstructions(), /sandbox/)
          await client.ping()
          const { tools, nextCursor } = await client.listTools()
          assert.deepEqual([tools.length, nextCursor], [18, undefined])
          assert.ok(tools.every((tool) => tool.inputSchema.type === 'object' && tool.outputSchema.type === 'object'))
          // The SDK checks structured content against the schemas that it has listed.
          assert.equal(await run(client, 'echo hello from $((6 * 7))'), 'hello from 42')
          await client.callTool({ name: 'sandbox_write_file', arguments: { path: 'a.txt', content: 'one\ntwo\n' } })
          const read = await client.callTool({ name: 'sandbox_read_file', arguments: { path: 'a.txt' } })
          assert.deepEqual([read.isError, read.structuredContent.data.totalLines], [false, 2])
          assert.equal(read.structuredContent.sandboxId, sandbox.sandboxId)
          const missing = await client.callTool({ name: 'sandbox_read_file', arguments: { path: 'none' } })
          assert.deepEqual([missing.isError, missing.structuredContent.error.code], [true, 'file_not_found'])
          const wrong = await client.callTool({ name: 'sandbox_read_file', arguments: { file: 'a.txt' } })
          assert.ok(wrong.isError && /path is required/.test(wrong.content[0].text))
          await assert.rejects(client.callTool({ name: 'no_such_tool', arguments: {} }), (error) => error.code === -32602)
        }),
      ))
  }

  test(`${kind}: progress and cancellation`, () =>
    withSandbox((sandbox) =>
      withClient(kind, versions[0], sandbox.sandboxId, async (client) => {
        const seen = []
        const begin = Date.now()
        await run(client, 'for i in 1 2 3; do echo step $i; sleep 0.7; done', {
          onprogress: (progress) => seen.push([Date.now() - begin, progress.message]),
        })
        assert.ok(seen.length >= 2 && seen[0][0] < 1800, JSON.stringify(seen))
        assert.match(seen.map(([, message]) => message).join('\n'), /step 1/)
        const count = async () => Number((await sandbox.commands.run("pgrep -fc '^sleep 65432' || true")).stdout)
        for (const onprogress of [undefined, () => {}]) {
          const stop = new AbortController()
          const call = run(client, 'sleep 65432', { signal: stop.signal, onprogress })
          const rejected = assert.rejects(call)
          await eventually(async () => (await count()) === 1)
          stop.abort('enough')
          await rejected
          await eventually(async () => (await count()) === 0)
        }
        assert.equal(await run(client, 'echo still here'), 'still here')
      }),
    ))

  test(`${kind}: a time limit of the client ends the command`, () =>
    withSandbox((sandbox) =>
      withClient(kind, versions[0], sandbox.sandboxId, async (client) => {
        await assert.rejects(run(client, 'sleep 54321', { timeout: 1500 }), /timed out/)
        const count = async () => Number((await sandbox.commands.run("pgrep -fc '^sleep 54321' || true")).stdout)
        await eventually(async () => (await count()) === 0)
      }),
    ))
}

test('two clients with the same ids do not cancel each other', () =>
  withSandbox((sandbox) =>
    withClient('http', versions[0], sandbox.sandboxId, (one, first) =>
      withClient('http', versions[0], sandbox.sandboxId, async (two, second) => {
        assert.notEqual(first.sessionId, second.sessionId)
        const stop = new AbortController()
        // Both have sent as many requests, so both use the same id.
        const kept = run(one, 'sleep 3; echo kept')
        const dropped = assert.rejects(run(two, 'sleep 43210', { signal: stop.signal }))
        const count = async () => Number((await sandbox.commands.run("pgrep -fc '^sleep 43210' || true")).stdout)
        await eventually(async () => (await count()) === 1)
        stop.abort()
        await dropped
        await eventually(async () => (await count()) === 0)
        assert.equal(await kept, 'kept')
      }),
    ),
  ))

test('a page of another origin and a wrong key are refused', async () => {
  const post = (headers) =>
    fetch(`${url}/mcp`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
    })
  assert.equal((await post({ 'X-API-KEY': key })).status, 200)
  assert.equal((await post({ 'X-API-KEY': key, Origin: 'http://evil.test' })).status, 403)
  assert.equal((await post({})).status, 401)
  assert.equal((await post({ Authorization: 'Bearer e2b_0' })).status, 401)
})
