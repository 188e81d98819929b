// Templates from code of the JS SDK: steps, files, tags, start and ready commands, logs, and failures that point to their step.
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import {
  BuildError, Template, TemplateError, defaultBuildLogger, waitForFile, waitForPort, waitForProcess, waitForTimeout, waitForURL,
} from 'e2b'
import { eventually } from './sandbox.mjs'
import { inside, name, shown } from './template.mjs'

function context(files) {
  const place = mkdtempSync(join(tmpdir(), 'context-'))
  after(() => rmSync(place, { recursive: true }))
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(place, path, '..'), { recursive: true })
    writeFileSync(join(place, path), content)
  }
  return place
}

test('copy', async () => {
  const place = context({ 'one.txt': 'one', 'two.txt': 'two', 'tree/inner/deep.txt': 'deep', 'tree/skipped.log': 'log', '.dockerignore': '**/*.log\n' })
  writeFileSync(join(place, 'run.sh'), '#!/bin/sh\necho ran\n')
  chmodSync(join(place, 'run.sh'), 0o755)
  symlinkSync('inner/deep.txt', join(place, 'tree/link'))
  const template = Template({ fileContextPath: place })
    .fromTemplate('base')
    .copy('one.txt', 'into/')
    .copy('tree', '/srv/tree', { user: 'root' })
    .copy(['one.txt', 'two.txt'], '/srv/both/', { user: 'user:root', mode: 0o640 })
    .copy('*.txt', '/srv/glob/')
    .copy('tree/link', '/srv/followed', { resolveSymlinks: true })
    .copyItems([{ src: 'run.sh', dest: '/usr/local/bin/run', mode: 0o755 }])
  const built = name('copy')
  const info = await Template.build(template, built)
  assert.match(info.buildId, /^[0-9a-f-]{36}$/)
  await inside(built, async (sandbox) => {
    assert.equal(await sandbox.files.read('into/one.txt'), 'one')
    assert.deepEqual(await shown(sandbox, 'cd /srv/tree && find . | sort; readlink link'), ['.', './inner', './inner/deep.txt', './link', 'inner/deep.txt'])
    assert.deepEqual(await shown(sandbox, "cd /srv/both && stat -c '%n %U:%G %a' *"), ['one.txt user:root 640', 'two.txt user:root 640'])
    assert.deepEqual(await shown(sandbox, 'ls /srv/glob; stat -c %F /srv/followed; run'), ['one.txt', 'two.txt', 'regular file', 'ran'])
  })
})

test('steps', async () => {
  const template = Template()
    .fromTemplate('base')
    .setEnvs({ ONE: '1' })
    .runCmd(['whoami > who', 'echo $ONE >> who'])
    .runCmd('whoami > /root/who', { user: 'root' })
    .setWorkdir('/srv/app')
    .makeDir('made', { mode: 0o750 })
    .runCmd('touch a b c')
    .rename('a', 'moved')
    .remove(['b', 'c'], { force: true })
    .makeSymlink('moved', 'link')
    .setUser('newcomer')
  const built = name('steps')
  await Template.build(template, built)
  await inside(built, async (sandbox) => {
    assert.deepEqual(await shown(sandbox, 'cat /home/user/who /root/who; cd /srv/app; ls; stat -c %a made'), ['user', '1', 'root', 'link', 'made', 'moved', '750'])
    assert.equal((await sandbox.commands.run('whoami; pwd; echo $ONE')).stdout, 'newcomer\n/srv/app\n1\n')
  })
})

const serve = 'mkdir -p /tmp/www && cd /tmp/www && touch up && python3 -m http.server 8000'
const ready = {
  port: waitForPort(8000),
  url: waitForURL('http://localhost:8000/up'),
  process: waitForProcess('python3'),
  file: waitForFile('/tmp/www/up'),
  timeout: waitForTimeout(1000),
}
for (const [kind, check] of Object.entries(ready)) {
  test(`start and ready: ${kind}`, async () => {
    const built = name(kind)
    await Template.build(Template().fromTemplate('base').setStartCmd(serve, check), built)
    await inside(built, async (sandbox) => assert.deepEqual(await shown(sandbox, 'ps -o user= -C python3 | sort -u'), ['user']))
  })
}

test('ready alone, and from another template', async () => {
  const [parent, child] = [name('parent'), name('child')]
  await Template.build(Template().fromTemplate('base').runCmd('touch ~/there').setReadyCmd(waitForFile('/home/user/there')), `${parent}:v1`)
  await Template.build(Template().fromTemplate(`${parent}:v1`).runCmd('ls > ~/listing'), child)
  await inside(child, async (sandbox) => assert.match(await sandbox.files.read('listing'), /there/))
})

test('tags', async () => {
  const tagged = name('tags')
  const version = (text) => Template().fromTemplate('base').runCmd(`echo ${text} > ~/version`)
  const read = (reference) => inside(reference, (sandbox) => sandbox.files.read('version'))
  const first = await Template.build(version('one'), `${tagged}:v1`)
  const second = await Template.build(version('two'), tagged, { tags: ['v2', 'default'] })
  const tags = async () => Object.fromEntries((await Template.getTags(tagged)).map((row) => [row.tag, row.buildId]))
  assert.deepEqual(await tags(), { v1: first.buildId, v2: second.buildId, default: second.buildId })
  assert.equal(await read(tagged), 'two\n')
  const moved = await Template.assignTags(`${tagged}:v1`, ['default', 'stable'])
  assert.equal(moved.buildId, first.buildId)
  assert.equal(await read(tagged), 'one\n')
  await Template.removeTags(tagged, ['v2', 'stable'])
  assert.deepEqual(Object.keys(await tags()).sort(), ['default', 'v1'])
  await assert.rejects(Template.assignTags(`${tagged}:v9`, 'x'), TemplateError)
  assert.equal(await Template.exists(tagged), true)
})

test('skip cache', async () => {
  const built = name('cache')
  const template = (skip) => {
    const begun = Template().fromTemplate('base').runCmd(`echo ${built}; date +%s%N > ~/first`)
    return (skip ? begun.skipCache() : begun).runCmd('date +%s%N > ~/second')
  }
  const times = () => inside(built, (sandbox) => shown(sandbox, 'cat /home/user/first /home/user/second'))
  await Template.build(template(false), built)
  const first = await times()
  await Template.build(template(false), built)
  assert.deepEqual(await times(), first)
  await Template.build(template(true), built)
  const partly = await times()
  assert.equal(partly[0], first[0])
  assert.notEqual(partly[1], first[1])
  await Template.build(template(false), built, { skipCache: true })
  assert.notEqual((await times())[0], first[0])
})

test('in the background, with logs', async () => {
  const entries = []
  const template = Template().fromTemplate('base').runCmd('for i in $(seq 1 150); do echo line $i; done')
  const info = await Template.buildInBackground(template, name('background'), { cpuCount: 1, memoryMB: 512 })
  const status = await eventually(async () => {
    const now = await Template.getBuildStatus(info)
    return !['building', 'waiting'].includes(now.status) && now
  }, 60_000)
  assert.equal(status.status, 'ready')
  await Template.build(template, name('logs'), { onBuildLogs: (entry) => entries.push(entry) })
  assert.ok(entries.length > 2 && entries.every((entry) => typeof entry.message === 'string'))
  await Template.build(template, name('logger'), { onBuildLogs: defaultBuildLogger({ minLevel: 'error' }) })
})

test('failures point to their step', async () => {
  const failing = (command, user) =>
    Template()
      .fromTemplate('base')
      .runCmd('echo first')
      .runCmd(command, { user }) // the step that fails
      .runCmd('echo last')
  const line = Number(/templates\.test\.mjs:(\d+)/.exec(new Error().stack)[1]) - 2
  const at = (error) => Number(/templates\.test\.mjs:(\d+)/.exec(error.stack)?.[1])
  await assert.rejects(Template.build(failing('whoami', 'root123'), name('user')), (error) => {
    assert.ok(error instanceof BuildError, error)
    assert.ok(error.message.includes("failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'"), error.message)
    assert.equal(at(error), line, error.stack)
    return true
  })
  await assert.rejects(Template.build(failing('echo the reason; exit 7', 'user'), name('exit')), (error) => {
    assert.match(error.message, /the reason/)
    assert.equal(at(error), line, error.stack)
    return true
  })
})

test('from a Dockerfile', async () => {
  const place = context({ 'one.txt': 'one' })
  const built = name('dockerfile')
  const text = 'FROM e2bdev/base\nENV NAME=value\nWORKDIR /app\nCOPY one.txt ./\nRUN echo $NAME >> one.txt\nUSER user\n'
  await Template.build(Template({ fileContextPath: place }).fromDockerfile(text), built)
  await inside(built, async (sandbox) => assert.equal((await sandbox.commands.run('whoami; pwd; cat one.txt')).stdout, 'user\n/app\nonevalue\n'))
})
