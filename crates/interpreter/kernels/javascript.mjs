// Runs cells of JavaScript or TypeScript. `javascript.mjs LANGUAGE SOCKET`: messages are lines of JSON on a Unix socket.
//
// The engine's own evaluation for consoles gives what a notebook needs: top-level `await`, and `let`, `const` and `class` that later cells
// see and may declare again. It runs in this thread, so that code finds an ordinary Node process around it.

import { Console } from 'node:console'
import { Session } from 'node:inspector/promises'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import process from 'node:process'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'

const [language, path] = process.argv.slice(2)
process.argv.length = 1
const socket = createConnection(path)
const session = new Session()
session.connect()

const send = (message) => socket.write(`${JSON.stringify(message)}\n`)

// What the process writes is output of the cell, in the order of its results.
for (const stderr of [false, true]) {
  const stream = stderr ? process.stderr : process.stdout
  stream.write = (chunk, encoding, callback) => {
    const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString()
    if (text !== '') send({ type: 'stream', stderr, text })
    const done = typeof encoding === 'function' ? encoding : callback
    if (done) process.nextTick(done)
    return true
  }
}
globalThis.console = new Console({ stdout: process.stdout, stderr: process.stderr, colorMode: false })

// Modules are found from the current directory, which a cell may change.
const here = () => join(process.cwd(), 'cell.js')
const require = (name) => createRequire(here())(name)
require.resolve = (name, options) => createRequire(here()).resolve(name, options)
Object.defineProperty(require, 'cache', { get: () => createRequire(here()).cache })
const load = async (name) => {
  if (/^[a-z]+:/i.test(name) && !name.startsWith('node:')) return import(name)
  try {
    const found = createRequire(here()).resolve(name)
    return import(found.startsWith('/') ? pathToFileURL(found).href : found)
  } catch {
    // A module without a form for `require`.
    return import(import.meta.resolve(name, pathToFileURL(here()).href))
  }
}
const hidden = { writable: true, configurable: true, enumerable: false }
Object.defineProperties(globalThis, { require: { ...hidden, value: require }, __import: { ...hidden, value: load } })

// Displays that cells can call.
const show = (data) => send({ type: 'result', main: false, data })
const text = (value) => (typeof value === 'string' ? value : Buffer.from(value).toString('base64'))
globalThis.$$ = {
  html: (value) => show({ 'text/html': String(value) }),
  markdown: (value) => show({ 'text/markdown': String(value) }),
  svg: (value) => show({ 'image/svg+xml': String(value) }),
  png: (value) => show({ 'image/png': text(value) }),
  jpeg: (value) => show({ 'image/jpeg': text(value) }),
  json: (value) => show({ 'application/json': value }),
  text: (value) => show({ 'text/plain': String(value) }),
  mime: (data) => show(data),
}

/** The representations of a value. Methods of the value may raise, or give something else. */
function representations(value) {
  const data = {}
  const method = (name, mime) => {
    try {
      const made = value?.[name]?.()
      if (mime === undefined && made && typeof made === 'object') Object.assign(data, made)
      else if (made !== undefined && mime !== undefined) data[mime] = text(made)
    } catch {}
  }
  if ((typeof value === 'object' || typeof value === 'function') && value !== null) {
    method('_toMime')
    method('_toHtml', 'text/html')
    method('_toMarkdown', 'text/markdown')
    method('_toSvg', 'image/svg+xml')
    method('_toPng', 'image/png')
    method('_toJpeg', 'image/jpeg')
    if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) {
      try {
        const plain = JSON.stringify(value)
        if (plain !== undefined) data['application/json'] = JSON.parse(plain)
      } catch {}
    }
  }
  if (data['text/plain'] === undefined) {
    try {
      data['text/plain'] = inspect(value, { maxArrayLength: null, maxStringLength: null })
    } catch (error) {
      data['text/plain'] = `[a value that cannot be shown: ${String(error)}]`
    }
  }
  return data
}

const DECLARATION = /^[ \t]*import\s+(?!\()(?:(?<what>[\w$*{}\s,]+?)\s+from\s+)?(?<quote>['"])(?<name>[^'"\n]+)\k<quote>(?:\s+with\s*\{[^}]*\})?[ \t]*;?/gm
const LITERAL = /\/\/[^\n]*|\/\*[\s\S]*?\*\/|`(?:\\[\s\S]|[^`\\])*`/g

/** Code without `import` declarations, which only modules may have: they become calls. */
function withoutImports(code) {
  const literals = [...code.matchAll(LITERAL)].map((found) => [found.index, found.index + found[0].length])
  const inLiteral = (at) => literals.some(([from, to]) => at > from && at < to)
  const declared = code.replace(DECLARATION, (whole, what, _, name, at) => {
    if (inLiteral(at + whole.indexOf('import'))) return whole
    const lines = '\n'.repeat(whole.split('\n').length - 1)
    const module = `await __import(${JSON.stringify(name)})`
    return `${what === undefined ? module : bindings(what.trim(), module)};${lines}`
  })
  // A call of `import` has no file to start from.
  return declared.replace(/(?<![\w$.])import(?=\s*\()/g, (word, at) => (inLiteral(at) ? word : '__import'))
}

/** Declarations for `a, { b as c }`, `a, * as b` and the like. */
function bindings(what, module) {
  const named = what.match(/\{([\s\S]*)\}/)?.[1]
  const all = what.match(/\*\s*as\s+([\w$]+)/)?.[1]
  const first = what.match(/^([\w$]+)/)?.[1]
  const parts = []
  if (first) parts.push(`default: ${first}`)
  for (const item of named?.split(',') ?? []) {
    const [from, to] = item.trim().split(/\s+as\s+/)
    if (from && !from.startsWith('type ')) parts.push(to ? `${from}: ${to}` : from)
  }
  if (all) return `const ${all} = ${module}${first ? `, ${first} = ${all}.default` : ''}`
  return `const { ${parts.join(', ')} } = ${module}`
}

let abandon
/** Runs a cell and reports its value or exception. */
async function run(code) {
  try {
    const stripped = language === 'typescript' ? stripTypeScriptTypes(code, { mode: 'transform' }) : code
    const given = new Promise((_, reject) => {
      abandon = () => reject(Object.assign(new Error('The cell was interrupted'), { name: 'Interrupted' }))
    })
    const value = await Promise.race([evaluate(withoutImports(stripped)), given])
    if (value !== undefined) send({ type: 'result', main: true, data: representations(value) })
  } catch (error) {
    send({ type: 'error', ...described(error) })
  }
  abandon = undefined
}

async function evaluate(code) {
  const options = { objectGroup: 'cell', replMode: true, awaitPromise: true }
  const { result, exceptionDetails } = await session.post('Runtime.evaluate', { expression: code, ...options })
  const raised = exceptionDetails?.exception
  const object = raised ?? result
  // By way of a function, which gets the value itself.
  let taken
  Object.defineProperty(globalThis, '__take', { ...hidden, value: (value) => (taken = [value]) })
  const argument = object.objectId
    ? { objectId: object.objectId }
    : object.unserializableValue
      ? { unserializableValue: object.unserializableValue }
      : { value: object.value }
  const context = await contextId
  await session.post('Runtime.callFunctionOn', {
    functionDeclaration: 'function (value) { __take(value) }',
    arguments: object.type === 'undefined' ? [] : [argument],
    executionContextId: context,
  })
  await session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' })
  if (exceptionDetails) throw taken ? taken[0] : new Error(exceptionDetails.text)
  return await taken?.[0]
}

/** Name, message and stack of whatever was thrown. */
function described(error) {
  try {
    if (error !== null && typeof error === 'object' && 'message' in error) {
      const stack = String(error.stack ?? '')
      const own = stack.split('\n').filter((line) => !/node:internal|<anonymous>\)$|Session\.post/.test(line) && !line.includes(import.meta.url))
      return { name: String(error.name ?? 'Error'), value: String(error.message), traceback: own.join('\n') }
    }
    return { name: 'Error', value: inspect(error), traceback: '' }
  } catch {
    return { name: 'Error', value: 'an exception that cannot be shown', traceback: '' }
  }
}

// The context of this thread's global object.
const contextId = new Promise((resolve) => {
  session.on('Runtime.executionContextCreated', ({ params }) => resolve(params.context.id))
})
await session.post('Runtime.enable')
await contextId
session.post('Runtime.disable')

// What happens after a cell, outside of it, is shown and ends nothing.
process.on('uncaughtException', (error) => process.stderr.write(`${inspect(error)}\n`))
process.on('unhandledRejection', (error) => process.stderr.write(`${inspect(error)}\n`))

let last = Promise.resolve()
const lines = createInterface({ input: socket, crlfDelay: Number.POSITIVE_INFINITY })
lines.on('line', (line) => {
  const message = JSON.parse(line)
  if (message.type === 'interrupt') abandon?.()
  if (message.type !== 'execute') return
  last = last.then(async () => {
    for (const [name, value] of Object.entries(message.env)) {
      if (value === null) delete process.env[name]
      else process.env[name] = value
    }
    await run(message.code)
    send({ type: 'idle' })
  })
})
lines.on('close', () => process.kill(process.pid, 'SIGKILL'))
