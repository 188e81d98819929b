// The lifecycle of a sandbox through the JS SDK.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { AuthenticationError, NotFoundError, Sandbox, SandboxError, TimeoutError } from 'e2b'
import { eventually, withSandbox } from './sandbox.mjs'

test('create, run, kill', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
  assert.match(sandbox.sandboxId, /^[a-z0-9]+$/)
  assert.equal((await sandbox.commands.run('echo hello')).stdout, 'hello\n')
  assert.equal(await sandbox.isRunning(), true)
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await sandbox.kill(), false)
})

test('info, metadata and environment', () =>
  withSandbox(
    async (sandbox) => {
      const info = await Sandbox.getInfo(sandbox.sandboxId)
      assert.equal(info.sandboxId, sandbox.sandboxId)
      assert.deepEqual(info.metadata, { purpose: 'js' })
      assert.equal(info.state, 'running')
      assert.ok(info.endAt > info.startedAt)
      assert.equal((await sandbox.commands.run('echo $COLOUR')).stdout, 'blue\n')
    },
    { metadata: { purpose: 'js' }, envs: { COLOUR: 'blue' } },
  ))

test('list by metadata, in pages', async () => {
  const run = randomUUID()
  const odd = 'a b&c=d %2F'
  const made = []
  try {
    for (let n = 0; n < 3; n++) made.push(await Sandbox.create({ timeoutMs: 60_000, metadata: { run, odd } }))
    const paginator = Sandbox.list({ query: { metadata: { run, odd } }, limit: 2, order: 'asc' })
    const found = []
    while (paginator.hasNext) found.push(...(await paginator.nextItems()))
    assert.deepEqual(found.map((row) => row.sandboxId), made.map((sandbox) => sandbox.sandboxId))
  } finally {
    for (const sandbox of made) await sandbox.kill()
  }
})

test('connect, extend, expire', () =>
  withSandbox(async (sandbox) => {
    const other = await Sandbox.connect(sandbox.sandboxId)
    await other.files.write('shared', 'x')
    assert.equal(await sandbox.files.read('shared'), 'x')
    await sandbox.setTimeout(600_000)
    assert.ok((await Sandbox.getInfo(sandbox.sandboxId)).endAt.getTime() - Date.now() > 500_000)
    await sandbox.setTimeout(0)
    await eventually(async () => !(await sandbox.isRunning()))
  }))

test('errors', async () => {
  await assert.rejects(Sandbox.create('no-such-template'), SandboxError)
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
  await assert.rejects(Sandbox.create({ timeoutMs: -5000 }), SandboxError)
  await assert.rejects(Sandbox.getInfo('inosuchsandbox'), NotFoundError)
  await assert.rejects(Sandbox.connect('inosuchsandbox'), NotFoundError)
  assert.equal(await Sandbox.kill('inosuchsandbox'), false)
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
  await sandbox.kill()
  await assert.rejects(sandbox.commands.run('true'), NotFoundError)
  await assert.rejects(sandbox.files.read('/etc/hostname'), TimeoutError)
})

test('metrics', () =>
  withSandbox(async (sandbox) => {
    const metrics = await eventually(async () => {
      const rows = await Sandbox.getMetrics(sandbox.sandboxId)
      return rows.length && rows
    }, 15_000)
    assert.ok(metrics.at(-1).memTotal > 0 && metrics.at(-1).cpuCount > 0)
  }))
