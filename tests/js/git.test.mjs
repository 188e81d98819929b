// The JS SDK's git helpers, against a bare repository inside.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withSandbox } from './sandbox.mjs'

test('git', () =>
  withSandbox(async ({ git, files, commands }) => {
    await git.configureUser('Ada', 'ada@example.com')
    assert.equal(await git.getConfig('user.name'), 'Ada')
    await git.setConfig('core.abbrev', '12')
    assert.equal(await git.getConfig('core.abbrev'), '12')
    await git.init('origin.git', { bare: true, initialBranch: 'main' })
    await git.init('work', { initialBranch: 'main' })
    await git.remoteAdd('work', 'origin', '/home/user/origin.git')
    assert.equal(await git.remoteGet('work', 'origin'), '/home/user/origin.git')

    await files.write('work/a.txt', 'one\n')
    await git.add('work')
    assert.equal((await git.status('work')).hasStaged, true)
    await git.commit('work', 'First')
    assert.equal((await git.status('work')).isClean, true)
    await git.push('work', { remote: 'origin', branch: 'main' })

    await git.createBranch('work', 'side')
    assert.equal((await git.branches('work')).currentBranch, 'side')
    await git.checkoutBranch('work', 'main')
    await git.deleteBranch('work', 'side')

    await files.write('work/a.txt', 'changed\n')
    await git.restore('work', { paths: ['a.txt'] })
    assert.equal(await files.read('work/a.txt'), 'one\n')
    await files.write('work/a.txt', 'changed again\n')
    await git.reset('work', { mode: 'hard' })
    assert.equal(await files.read('work/a.txt'), 'one\n')

    await git.clone('/home/user/origin.git', { path: 'copy' })
    await files.write('copy/b.txt', 'two\n')
    await git.add('copy')
    await git.commit('copy', 'Second')
    await git.push('copy')
    await git.pull('work', { remote: 'origin', branch: 'main' })
    assert.equal(await files.read('work/b.txt'), 'two\n')

    await git.dangerouslyAuthenticate({ username: 'ada', password: 'not-a-real-password', host: 'git.example.com' })
    assert.equal((await commands.run('cat ~/.git-credentials')).stdout, 'https://ada:not-a-real-password@git.example.com\n')
  }))
