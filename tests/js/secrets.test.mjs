// Secrets, through the JS SDK.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { Secret, SecretError, SecretNotFoundError } from 'e2b'

test('secrets', async () => {
  const name = `My-Key-${randomUUID().slice(0, 8)}`
  const made = await Secret.create(name, 'value', { metadata: { owner: 'me' } })
  try {
    assert.deepEqual([made.name, made.version, made.metadata], [name.toLowerCase(), 1, { owner: 'me' }])
    assert.deepEqual(await Secret.getInfo(made.secretId), made)
    await assert.rejects(Secret.create(name, 'again'), SecretError)
    assert.equal((await Secret.update(name, 'two\nlines')).version, 2)
    assert.equal(await Secret.exists(name), true)
    const [pages, found] = [Secret.list({ limit: 1 }), []]
    while (pages.hasNext) found.push(...(await pages.nextItems()))
    assert.ok(found.some((secret) => secret.secretId === made.secretId))
  } finally {
    assert.equal(await Secret.destroy(name), true)
  }
  assert.equal(await Secret.destroy(name), false)
  assert.equal(await Secret.exists(name), false)
  await assert.rejects(Secret.getInfo(name), SecretNotFoundError)
})
