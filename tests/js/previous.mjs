// Makes the tests use the previous SDK generation, which E2B's command line also includes: node --import ./previous.mjs --test …
import { register } from 'node:module'

const hook = `export const resolve = (name, context, next) => next(name === 'e2b' ? 'e2b-previous' : name, context)`
register('data:text/javascript,' + encodeURIComponent(hook), import.meta.url)
