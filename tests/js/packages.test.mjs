// Downloads of builds by the JS SDK: packages, repositories, and images of registries with and without a password. The registries on loopback
// are named by CABANA_TEST_OPEN and CABANA_TEST_CLOSED.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BuildError, Template } from 'e2b'
import { inside, name, shown } from './template.mjs'

test('packages', async () => {
  const template = Template()
    .fromBaseImage()
    .aptInstall(['bc'], { noInstallRecommends: true })
    .pipInstall('six==1.17.0')
    .npmInstall('left-pad@1.3.0', { g: true })
  const built = name('packages')
  await Template.build(template, built)
  await inside(built, async (sandbox) => {
    const seen = await shown(sandbox, "echo 6*7 | bc; python3 -c 'import six; print(six.__version__)'; npm ls -g | grep -c left-pad")
    assert.deepEqual(seen, ['42', '1.17.0', '1'])
  })
})

test('a repository', async () => {
  const make =
    'git init -q -b main /tmp/origin && cd /tmp/origin && git config user.email a@b && git config user.name n && git commit -q --allow-empty -m first'
  const built = name('git')
  await Template.build(Template().fromTemplate('base').runCmd(make).gitClone('file:///tmp/origin', '/home/user/clone', { branch: 'main', depth: 1 }), built)
  await inside(built, async (sandbox) =>
    assert.deepEqual(await shown(sandbox, "git -c safe.directory='*' -C /home/user/clone log --format=%s"), ['first']))
})

test('images', async () => {
  const built = name('image')
  const template = (image, credentials) => Template().fromImage(image, credentials).runCmd('echo built > /built', { user: 'root' })
  await Template.build(template(`${process.env.CABANA_TEST_OPEN}/team/busybox:v1`), built)
  await inside(built, async (sandbox) => assert.equal(await sandbox.files.read('/built', { user: 'root' }), 'built\n'))
  const closed = `${process.env.CABANA_TEST_CLOSED}/team/private:1`
  await Template.build(template(closed, { username: 'cabana', password: 'secret-of-the-test' }), built)
  await assert.rejects(Template.build(template(closed, { username: 'cabana', password: 'guess' }), built), (error) => {
    assert.ok(error instanceof BuildError && error.message.includes('team/private') && !error.message.includes('guess'), error.message)
    return true
  })
})
