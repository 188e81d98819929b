// Where sandboxes may connect, through the JS SDK.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sandbox } from 'e2b'
import { withSandbox } from './sandbox.mjs'

test('where a sandbox may connect', () =>
  withSandbox(
    async (sandbox) => {
      const network = async () => (await Sandbox.getInfo(sandbox.sandboxId)).network
      assert.deepEqual((await network()).allowOut, ['api.example.com'])
      assert.deepEqual((await network()).rules, { 'api.example.com': [{ transform: { headers: { 'x-a': 'b' } } }] })
      await sandbox.updateNetwork({ denyOut: ['192.0.2.1'] })
      assert.deepEqual((await network()).denyOut, ['192.0.2.1'])
      assert.equal((await network()).allowOut, undefined)
      await sandbox.updateNetwork({ allowInternetAccess: false })
      assert.deepEqual((await network()).denyOut, ['0.0.0.0/0'])
      await assert.rejects(sandbox.updateNetwork({ allowOut: ['api.example.com'] }), /ALL_TRAFFIC/)
    },
    {
      network: {
        allowOut: ({ rules }) => [...rules.keys()],
        denyOut: ({ allTraffic }) => [allTraffic],
        rules: { 'api.example.com': [{ transform: { headers: { 'x-a': 'b' } } }] },
      },
    },
  ))
