// Commands and terminals through the JS SDK.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AuthenticationError, CommandExitError, InvalidArgumentError, NotFoundError, Sandbox, TimeoutError } from 'e2b'
import { eventually, withSandbox } from './sandbox.mjs'

test('output, exit code, environment, directory, user', () =>
  withSandbox(async (sandbox) => {
    const result = await sandbox.commands.run('echo out; echo err >&2; echo $A; pwd; whoami', {
      envs: { A: 'b c' },
      cwd: '/tmp',
      user: 'root',
    })
    assert.equal(result.stdout, 'out\nb c\n/tmp\nroot\n')
    assert.equal(result.stderr, 'err\n')
    assert.equal((await sandbox.commands.run('whoami; sudo whoami')).stdout, 'user\nroot\n')
    await assert.rejects(sandbox.commands.run('echo partly; exit 42'), (error) => {
      assert.ok(error instanceof CommandExitError)
      assert.deepEqual([error.exitCode, error.stdout, error.error], [42, 'partly\n', 'exit status 42'])
      return true
    })
    await assert.rejects(sandbox.commands.run('true', { user: 'nobody-here' }), AuthenticationError)
    await assert.rejects(sandbox.commands.run('true', { cwd: '/no/such' }), InvalidArgumentError)
  }))

test('streams while it runs', () =>
  withSandbox(async (sandbox) => {
    const seen = []
    await sandbox.commands.run('for i in 1 2 3; do echo $i; sleep 0.2; done', { onStdout: (text) => seen.push([Date.now(), text]) })
    assert.equal(seen.map(([, text]) => text).join(''), '1\n2\n3\n')
    assert.ok(seen.at(-1)[0] - seen[0][0] > 200)
  }))

test('time limit', () =>
  withSandbox(async (sandbox) => {
    await assert.rejects(sandbox.commands.run('sleep 1000', { timeoutMs: 500 }), TimeoutError)
    await eventually(async () => (await sandbox.commands.run('pgrep -x sleep || echo none')).stdout === 'none\n')
  }))

test('background, list, connect, input, kill', () =>
  withSandbox(async (sandbox) => {
    const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
    const listed = await sandbox.commands.list()
    assert.ok(listed.some((process) => process.pid === cat.pid && process.cmd === '/bin/bash'))
    await cat.sendStdin('first\n')
    await sandbox.commands.sendStdin(cat.pid, 'second\n')
    await sandbox.commands.closeStdin(cat.pid)
    assert.equal((await cat.wait()).stdout, 'first\nsecond\n')

    const ticking = await sandbox.commands.run('while true; do echo tick; sleep 0.05; done', { background: true })
    await ticking.disconnect()
    let ticks = ''
    const again = await sandbox.commands.connect(ticking.pid, { onStdout: (text) => { ticks += text } })
    await eventually(() => ticks.includes('tick\ntick\n'))
    assert.equal(await again.kill(), true)
    await assert.rejects(again.wait(), (error) => error instanceof CommandExitError && error.exitCode === -1)
    assert.equal(await sandbox.commands.kill(ticking.pid), false)
    await assert.rejects(sandbox.commands.connect(999_999), NotFoundError)
  }))

test('terminal with resize', () =>
  withSandbox(async (sandbox) => {
    let seen = ''
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => { seen += Buffer.from(data).toString() } })
    const type = (text) => sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(text))
    await type('stty size\n')
    await eventually(() => seen.includes('24 80'))
    await sandbox.pty.resize(terminal.pid, { cols: 132, rows: 50 })
    await type('stty size\n')
    await eventually(() => seen.includes('50 132'))
    await type('exit\n')
    assert.equal((await terminal.wait()).exitCode, 0)
  }))

test('many at once', () =>
  withSandbox(async (sandbox) => {
    const results = await Promise.all(Array.from({ length: 40 }, (_, n) => sandbox.commands.run(`sleep 0.1; echo ${n}`)))
    assert.deepEqual(results.map((result) => result.stdout), Array.from({ length: 40 }, (_, n) => `${n}\n`))
  }))

test('a kill ends a running command', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
  const handle = await sandbox.commands.run('sleep 1000', { background: true })
  const ended = assert.rejects(handle.wait(), TimeoutError)
  await sandbox.kill()
  await ended
})
