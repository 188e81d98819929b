// Files through the JS SDK.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FileNotFoundError, FilesystemEventType, FileType, InvalidArgumentError } from 'e2b'
import { eventually, withSandbox } from './sandbox.mjs'

test('text, bytes, blobs, streams, empty files', () =>
  withSandbox(async (sandbox) => {
    const info = await sandbox.files.write('notes.txt', 'ž 🐎\n')
    assert.equal(info.path, '/home/user/notes.txt')
    assert.equal(await sandbox.files.read('notes.txt'), 'ž 🐎\n')
    const blob = Buffer.alloc(1_000_000, 'abcdefg')
    await sandbox.files.write('a/b/blob', new Uint8Array(blob).buffer)
    assert.ok(blob.equals(await sandbox.files.read('a/b/blob', { format: 'bytes' })))
    assert.equal((await sandbox.files.read('a/b/blob', { format: 'blob' })).size, blob.length)
    await sandbox.files.write('streamed', new Blob([blob]).stream())
    const chunks = []
    for await (const chunk of await sandbox.files.read('streamed', { format: 'stream' })) chunks.push(chunk)
    assert.ok(blob.equals(Buffer.concat(chunks)))
    await sandbox.files.write('empty', '')
    assert.equal(await sandbox.files.read('empty'), '')
    const many = await sandbox.files.write([1, 2, 3].map((n) => ({ path: `many/${n}`, data: `${n}` })))
    assert.deepEqual(many.map((file) => file.path), [1, 2, 3].map((n) => `/home/user/many/${n}`))
  }))

test('list, info, move, remove', () =>
  withSandbox(async (sandbox) => {
    assert.equal(await sandbox.files.makeDir('tree/sub'), true)
    assert.equal(await sandbox.files.makeDir('tree/sub'), false)
    await sandbox.files.write('tree/file', '12345')
    const entries = await sandbox.files.list('tree')
    assert.deepEqual(entries.map((entry) => [entry.name, entry.type]), [['file', FileType.FILE], ['sub', FileType.DIR]])
    const info = await sandbox.files.getInfo('tree/file')
    assert.deepEqual([info.size, info.mode, info.owner], [5, 0o644, 'user'])
    await sandbox.files.rename('tree/file', 'tree/sub/moved')
    assert.equal(await sandbox.files.exists('tree/file'), false)
    assert.equal(await sandbox.files.exists('tree/sub/moved'), true)
    await sandbox.files.remove('tree')
    await assert.rejects(sandbox.files.read('tree/sub/moved'), FileNotFoundError)
    await assert.rejects(sandbox.files.list('tree'), FileNotFoundError)
    await assert.rejects(sandbox.files.read('/tmp'), InvalidArgumentError)
  }))

test('watch', () =>
  withSandbox(async (sandbox) => {
    await sandbox.files.makeDir('watched')
    const seen = []
    const handle = await sandbox.files.watchDir('watched', (event) => { seen.push(event) }, { recursive: true })
    await sandbox.files.write('watched/new', 'x')
    await eventually(() => seen.length >= 3)
    assert.deepEqual(seen.map((event) => [event.name, event.type]), [
      ['new', FilesystemEventType.CREATE],
      ['new', FilesystemEventType.CHMOD],
      ['new', FilesystemEventType.WRITE],
    ])
    await handle.stop()
    await assert.rejects(sandbox.files.watchDir('nowhere', () => {}), FileNotFoundError)
  }))

test('signed links', () =>
  withSandbox(async (sandbox) => {
    await sandbox.files.write('shared', 'by link')
    const download = await fetch(await sandbox.downloadUrl('shared', { useSignatureExpiration: 60_000 }))
    assert.equal(await download.text(), 'by link')
    const form = new FormData()
    form.append('file', new Blob(['uploaded']), 'x')
    const upload = await fetch(await sandbox.uploadUrl('up'), { method: 'POST', body: form })
    assert.equal(upload.status, 200)
    assert.equal(await sandbox.files.read('up'), 'uploaded')
  }))
