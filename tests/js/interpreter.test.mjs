// E2B's code interpreter SDK for JS, unmodified: every method that it adds. Its template is built by test_interpreter.py's fixture.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Sandbox } from '@e2b/code-interpreter'
import { Sandbox as Base } from 'e2b'

// Private in the SDK's types.
const HELPERS = ['getJupyterRequestUrl', 'handleRequestError']

let box
before(async () => {
  box = await Sandbox.create({ timeoutMs: 120_000, envs: { PLACE: 'sandbox' } })
})
after(async () => box?.kill())

test('every method is called here', () => {
  const names = (of) => Object.getOwnPropertyNames(of.prototype).filter((name) => name !== 'constructor')
  const own = names(Sandbox).filter((name) => typeof Object.getOwnPropertyDescriptor(Sandbox.prototype, name).value === 'function')
  const added = own.filter((name) => !names(Base).includes(name) && !HELPERS.includes(name))
  const wanted = ['createCodeContext', 'listCodeContexts', 'removeCodeContext', 'restartCodeContext', 'runCode']
  assert.deepEqual(added.sort(), wanted)
})

test('values, streams, results and errors', async () => {
  const seen = []
  const done = await box.runCode("import sys; print('ü', file=sys.stderr); 'val' + 'ue'", {
    onStdout: (message) => seen.push(message.line),
    onStderr: (message) => seen.push(message.line),
    onResult: (result) => seen.push(result.text),
  })
  assert.deepEqual(seen, ['ü\n', 'value'])
  assert.equal(done.text, 'value')
  assert.deepEqual(done.logs, { stdout: [], stderr: ['ü\n'] })
  assert.deepEqual((await box.runCode("print('a')", { onStdout: (message) => seen.push(message.line) })).logs.stdout, ['a\n'])
  assert.equal(seen.at(-1), 'a\n')
  const failed = await box.runCode('1/0', { onError: (error) => seen.push(error.name) })
  assert.equal(failed.error.name, 'ZeroDivisionError')
  assert.equal(seen.at(-1), 'ZeroDivisionError')
  const frame = await box.runCode("import pandas as pd; pd.DataFrame({'a': [1, 2]})")
  assert.deepEqual(frame.results[0].data, { a: [1, 2] })
  assert.ok([...frame.results[0].formats()].includes('html'))
  const plot = await box.runCode("import matplotlib.pyplot as plt; plt.bar(['x', 'y'], [1, 2]); plt.show()")
  assert.equal(plot.results[0].chart.type, 'bar')
  assert.deepEqual(plot.results[0].chart.elements.map((bar) => bar.value), [1, 2])
})

test('languages and environment', async () => {
  assert.equal((await box.runCode('process.env.PLACE', { language: 'js' })).text, 'sandbox')
  assert.equal((await box.runCode('process.env.PLACE', { language: 'js', envs: { PLACE: 'call' } })).text, 'call')
  assert.equal((await box.runCode('const n: number = 2; n', { language: 'ts' })).text, '2')
  assert.deepEqual((await box.runCode('echo $PLACE', { language: 'bash' })).logs.stdout, ['sandbox\n'])
})

test('contexts', async () => {
  const context = await box.createCodeContext({ cwd: '/tmp', language: 'python' })
  assert.equal(context.cwd, '/tmp')
  assert.equal((await box.listCodeContexts()).at(-1).id, context.id)
  await box.runCode('kept = 1', { context })
  await box.restartCodeContext(context)
  assert.equal((await box.runCode('kept', { context })).error.name, 'NameError')
  await box.removeCodeContext(context)
  await assert.rejects(box.runCode('1', { context }), /not found/)
})

test('a time limit interrupts', async () => {
  await assert.rejects(box.runCode('while True: pass', { timeoutMs: 500 }), /timed out/i)
  assert.equal((await box.runCode('1')).text, '1')
})
