// The whole public API of the JS SDK: every method is called by a test, or is unsupported and then fails with a clear
// error of the SDK.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import * as e2b from 'e2b'
import { eventually, withSandbox } from './sandbox.mjs'

const { Sandbox, Template, Volume } = e2b

// Class → test file → methods that it calls.
const CALLED = {
  Sandbox: {
    lifecycle: 'list create connect kill getInfo getMetrics setTimeout isRunning',
    network: 'updateNetwork',
    files: 'uploadUrl downloadUrl',
    pause: 'pause betaPause createSnapshot listSnapshots deleteSnapshot fork',
    surface: 'getHost getFullInfo',
  },
  Commands: { commands: 'list sendStdin closeStdin kill connect run' },
  CommandHandle: { commands: 'wait disconnect kill sendStdin', surface: 'closeStdin' },
  Pty: { commands: 'create sendInput resize', surface: 'connect kill' },
  Filesystem: { files: 'read write list makeDir rename remove exists getInfo watchDir', surface: 'writeFiles' },
  WatchHandle: { files: 'stop' },
  SandboxPaginator: { lifecycle: 'nextItems' },
  SnapshotPaginator: { pause: 'nextItems' },
  Secret: { secrets: 'create update getInfo list exists destroy' },
  SecretPaginator: { secrets: 'nextItems' },
  Git: {
    git:
      'clone init remoteAdd remoteGet status branches createBranch checkoutBranch deleteBranch add commit reset restore push pull' +
      ' setConfig getConfig dangerouslyAuthenticate configureUser',
  },
  Template: {
    surface: 'aliasExists toJSON toDockerfile',
    packages: 'aptInstall fromBaseImage fromImage gitClone npmInstall pipInstall',
    templates:
      'assignTags build buildInBackground copy copyItems exists fromDockerfile fromTemplate getBuildStatus getTags makeDir makeSymlink' +
      ' remove removeTags rename runCmd setEnvs setReadyCmd setStartCmd setUser setWorkdir skipCache',
  },
}

// Client-side only, or private in TypeScript, which is not visible here.
const LOCAL = {
  Sandbox: 'getMcpUrl resolveApiOpts fileUrl createSandbox forkSandbox connectSandbox resolveOpts',
  Commands: 'start',
  CommandHandle: 'flushDecoders iterateEvents handleEvents',
  WatchHandle: 'iterateEvents handleEvents',
  SandboxPaginator: 'updatePagination',
  SnapshotPaginator: 'updatePagination',
  SecretPaginator: 'updatePagination',
  Git: 'runGit runShell getRemoteUrl resolveRemoteName withRemoteCredentials hasUpstream',
  Secret: 'fill iamToken resolveOpts',
  Volume: 'resolveOpts',
  ConnectionConfig: 'getRequestSource buildUserAgent applyUserAgent setIntegration mergeOpts getSignal getSandboxUrl getSandboxDirectUrl getHost',
  ReadyCmd: 'getCmd',
  LogEntry: 'toString',
  LogEntryStart: 'toString',
  LogEntryEnd: 'toString',
  Template:
    'fromDebianImage fromUbuntuImage fromFedoraImage fromAlpineImage fromArchImage fromPythonImage fromNodeImage fromBunImage fromAWSRegistry' +
    ' fromGCPRegistry bunInstall addMcpServer betaDevContainerPrebuild' +
    ' betaSetDevContainerStart collectStackTrace instructionsWithHashes serialize resolveOpts',
}

// Class → method → how it is called, with a sandbox.
const volume = () => new Volume('id', 'name', process.env.E2B_API_KEY)
const LATER = {
  Volume: {
    create: () => Volume.create('name'),
    connect: () => Volume.connect('id'),
    destroy: () => Volume.destroy('id'),
    getInfo: () => volume().getInfo('path'),
    list: () => volume().list('path'),
    makeDir: () => volume().makeDir('path'),
    exists: () => volume().exists('path'),
    updateMetadata: () => volume().updateMetadata('path', { mode: 0o600 }),
    readFile: () => volume().readFile('path'),
    writeFile: () => volume().writeFile('path', 'data'),
    remove: () => volume().remove('path'),
  },
}
for (const table of [CALLED, LOCAL]) table.TemplateBase = table.Template

// Reads a file that only sandboxes with an MCP gateway have; starting one is refused at creation.
const WITHOUT_GATEWAY = { Sandbox: 'getMcpToken' }

function methods(of) {
  const found = new Set()
  for (let own = of; own && own !== Function.prototype; own = Object.getPrototypeOf(own)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(own))) {
      if (typeof value === 'function' && !name.startsWith('_')) found.add(name)
    }
  }
  for (let own = of.prototype; own && own !== Object.prototype; own = Object.getPrototypeOf(own)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(own))) {
      if (typeof value === 'function' && !name.startsWith('_') && name !== 'constructor') found.add(name)
    }
  }
  return found
}

const words = (text = '') => text.split(' ').filter(Boolean)
const accounted = (name) => [
  ...Object.values(CALLED[name] ?? {}).flatMap(words),
  ...words(LOCAL[name]),
  ...Object.keys(LATER[name] ?? {}),
  ...words(WITHOUT_GATEWAY[name]),
]

test('every method is accounted for', () =>
  withSandbox(async (sandbox) => {
    const handle = await sandbox.commands.run('cat; echo end', { background: true, stdin: true })
    const watch = await sandbox.files.watchDir('.', () => {})
    const classes = {
      Commands: sandbox.commands.constructor,
      Pty: sandbox.pty.constructor,
      Filesystem: sandbox.files.constructor,
      CommandHandle: handle.constructor,
      WatchHandle: watch.constructor,
      SandboxPaginator: Sandbox.list().constructor,
      SnapshotPaginator: sandbox.listSnapshots().constructor,
    }
    for (const [name, thing] of Object.entries(e2b)) {
      if (typeof thing !== 'function' || thing.prototype instanceof Error || name === 'default') continue
      if (thing.prototype && methods(thing).size) classes[name] = thing
    }
    const wrong = []
    for (const [name, thing] of Object.entries(classes)) {
      const [there, listed] = [methods(thing), accounted(name)]
      for (const method of there) if (!listed.includes(method)) wrong.push(`${name}.${method} is neither tested nor listed`)
      for (const method of listed) if (!there.has(method)) wrong.push(`${name}.${method} is listed but the SDK has none`)
    }
    assert.deepEqual(wrong, [])
    assert.ok(Object.keys(classes).length > 12)
    for (const name of [CALLED, LOCAL, LATER].flatMap(Object.keys)) assert.ok(name in classes, `the SDK has no ${name}`)
    await watch.stop()
    await handle.closeStdin()
    assert.equal((await handle.wait()).stdout, 'end\n')
  }))

test('the named test calls it', () => {
  for (const [name, files] of Object.entries(CALLED)) {
    for (const [file, called] of Object.entries(files)) {
      const text = readFileSync(new URL(`${file}.test.mjs`, import.meta.url), 'utf8')
      for (const method of words(called)) assert.match(text, new RegExp(`\\.${method}\\(`), `${name}.${method} in ${file}.test.mjs`)
    }
  }
})

test('not covered by other tests', () =>
  withSandbox(async (sandbox) => {
    assert.ok(sandbox.getHost(8080).startsWith(`8080-${sandbox.sandboxId}.`))
    assert.equal((await Sandbox.getFullInfo(sandbox.sandboxId)).sandboxId, sandbox.sandboxId)
    const written = await sandbox.files.writeFiles([1, 2].map((n) => ({ path: `many/${n}`, data: `${n}` })))
    assert.deepEqual(written.map((file) => file.path), ['/home/user/many/1', '/home/user/many/2'])
    let seen = ''
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} })
    await terminal.disconnect()
    await sandbox.pty.connect(terminal.pid, { onData: (data) => { seen += Buffer.from(data).toString() } })
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('echo $((40+2))\n'))
    await eventually(() => seen.includes('42'))
    assert.equal(await sandbox.pty.kill(terminal.pid), true)
    assert.equal(await Template.aliasExists('no-such-template'), false)
    const text = Template().fromImage('busybox').runCmd('true')
    assert.match(await Template.toJSON(text), /"fromImage": ?"busybox"/)
    assert.match(Template.toDockerfile(text), /^FROM busybox/)
    await assert.rejects(sandbox.getMcpToken(), e2b.NotFoundError)
  }))

const ours = [e2b.SandboxError, e2b.TemplateError, e2b.BuildError, e2b.VolumeError, e2b.SecretError].filter(Boolean)

for (const [name, calls] of Object.entries(LATER)) {
  test(`unsupported methods fail clearly: ${name}`, { timeout: 60_000 }, () =>
    withSandbox(async (sandbox) => {
      if (process.env.E2B_API_URL) process.env.E2B_VOLUME_API_URL = process.env.E2B_API_URL
      for (const [method, call] of Object.entries(calls)) {
        await assert.rejects(
          async () => call(sandbox),
          (error) => {
            assert.match(error.message, /not available on this server yet/, `${name}.${method}`)
            assert.ok(ours.some((kind) => error instanceof kind), `${name}.${method}: ${error.constructor.name}`)
            return true
          },
          `${name}.${method} did not fail`,
        )
      }
      assert.equal((await sandbox.commands.run('echo alive')).stdout, 'alive\n')
    }))
}
