// Pause, resume, snapshots and forks through the JS SDK.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { NotFoundError, Sandbox, TimeoutError } from 'e2b'
import { eventually, withSandbox } from './sandbox.mjs'

const BOOT = 'cat /proc/sys/kernel/random/boot_id'
const boot = async (sandbox) => (await sandbox.commands.run(BOOT)).stdout
const state = async (sandbox) => (await Sandbox.getInfo(sandbox.sandboxId)).state

async function everything(paginator) {
  const found = []
  while (paginator.hasNext) found.push(...(await paginator.nextItems()))
  return found
}

test('pause keeps memory, connect resumes', () =>
  withSandbox(async (sandbox) => {
    const before = await boot(sandbox)
    const command = await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    await sandbox.files.write('kept', 'content')
    assert.equal(await sandbox.pause(), true)
    assert.equal(await sandbox.pause(), false)
    assert.equal(await Sandbox.betaPause(sandbox.sandboxId), false)
    assert.equal(await state(sandbox), 'paused')
    assert.equal(await sandbox.isRunning(), false)
    await assert.rejects(sandbox.files.read('kept'), TimeoutError)
    const listed = await everything(Sandbox.list({ query: { state: ['paused'] } }))
    assert.ok(listed.some((row) => row.sandboxId === sandbox.sandboxId))
    const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 60_000 })
    assert.equal(await state(sandbox), 'running')
    assert.equal(await again.files.read('kept'), 'content')
    assert.equal(await boot(again), before)
    assert.ok((await again.commands.list()).some((process) => process.pid === command.pid))
  }))

test('a disk-only pause boots again', () =>
  withSandbox(async (sandbox) => {
    const before = await boot(sandbox)
    await sandbox.files.write('kept', 'content')
    assert.equal(await sandbox.pause({ keepMemory: false }), true)
    await sandbox.connect({ timeoutMs: 60_000 })
    assert.equal(await sandbox.files.read('kept'), 'content')
    assert.notEqual(await boot(sandbox), before)
  }))

test('the timeout pauses, a request resumes', () =>
  withSandbox(
    async (sandbox) => {
      assert.deepEqual((await Sandbox.getInfo(sandbox.sandboxId)).lifecycle, { onTimeout: 'pause', autoResume: true })
      const before = await boot(sandbox)
      await sandbox.setTimeout(0)
      await eventually(async () => (await state(sandbox)) === 'paused')
      assert.equal(await boot(sandbox), before)
      assert.equal(await state(sandbox), 'running')
    },
    { lifecycle: { onTimeout: 'pause', autoResume: true } },
  ))

test('without auto-resume it stays paused', () =>
  withSandbox(
    async (sandbox) => {
      assert.deepEqual((await Sandbox.getInfo(sandbox.sandboxId)).lifecycle, { onTimeout: 'pause', autoResume: false })
      await sandbox.setTimeout(0)
      await eventually(async () => (await state(sandbox)) === 'paused')
      await assert.rejects(sandbox.files.read('/etc/hostname'), TimeoutError)
      assert.equal(await state(sandbox), 'paused')
    },
    { lifecycle: { onTimeout: 'pause' } },
  ))

test('snapshots', () =>
  withSandbox(async (sandbox) => {
    const name = `js-${randomUUID().slice(0, 8)}`
    await sandbox.files.write('kept', 'then')
    const plain = await sandbox.createSnapshot()
    const named = await Sandbox.createSnapshot(sandbox.sandboxId, { name })
    try {
      await sandbox.files.write('kept', 'later')
      assert.deepEqual(plain.names, [])
      assert.deepEqual(named.names, [named.snapshotId])
      const listed = await everything(sandbox.listSnapshots({ limit: 1 }))
      assert.deepEqual(listed.map((row) => row.snapshotId), [named.snapshotId, plain.snapshotId])
      const found = await everything(Sandbox.listSnapshots({ name }))
      assert.deepEqual(found.map((row) => row.snapshotId), [named.snapshotId])
      for (const template of [plain.snapshotId, name]) {
        const other = await Sandbox.create(template, { timeoutMs: 60_000 })
        assert.equal(await other.files.read('kept'), 'then')
        await other.kill()
      }
    } finally {
      assert.equal(await Sandbox.deleteSnapshot(plain.snapshotId), true)
      assert.equal(await Sandbox.deleteSnapshot(named.snapshotId), true)
    }
    assert.equal(await Sandbox.deleteSnapshot(named.snapshotId), false)
    assert.deepEqual(await everything(sandbox.listSnapshots()), [])
  }))

test('forks', () =>
  withSandbox(async (sandbox) => {
    await sandbox.files.write('kept', 'content')
    const forks = [...(await sandbox.fork({ count: 2, timeoutMs: 60_000 })), ...(await Sandbox.fork(sandbox.sandboxId))]
    try {
      assert.equal(forks.length, 3)
      for (const [n, fork] of forks.entries()) {
        assert.ok(fork instanceof Sandbox, `${fork}`)
        assert.equal(await fork.files.read('kept'), 'content')
        await fork.files.write('kept', `${n}`)
      }
      assert.equal(await forks[0].files.read('kept'), '0')
      assert.equal(await sandbox.files.read('kept'), 'content')
    } finally {
      for (const fork of forks) if (fork instanceof Sandbox) await fork.kill()
    }
    for (const count of [0, 21]) await assert.rejects(async () => sandbox.fork({ count }), /count/i)
  }))

test('ended sandboxes cannot be paused', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
  await sandbox.kill()
  await assert.rejects(sandbox.pause(), NotFoundError)
  await assert.rejects(sandbox.createSnapshot(), NotFoundError)
  await assert.rejects(sandbox.fork(), NotFoundError)
})
