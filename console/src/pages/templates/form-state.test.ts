import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EMPTY, errorsOf, orderOf, snippetsOf, startOf } from './form-state';

test('what is missing has no message, what is wrong has one', () => {
  assert.deepEqual(errorsOf('dockerfile', EMPTY), { name: '' });
  assert.deepEqual(errorsOf('dockerfile', { ...EMPTY, name: 'web' }), {});
  assert.ok(errorsOf('dockerfile', { ...EMPTY, name: 'Web!' }).name);
  assert.ok(errorsOf('dockerfile', { ...EMPTY, dockerfile: 'FROM base\nCOPY . /a' }).dockerfile);
  assert.equal(errorsOf('image', EMPTY).image, '');
  assert.ok(errorsOf('image', { ...EMPTY, image: 'a b' }).image);
  assert.equal(errorsOf('sandbox', EMPTY).sandbox, '');
  assert.ok(errorsOf('image', { ...EMPTY, tags: 'a, b!' }).tags);
});

test('what is asked of the server', () => {
  const draft = {
    ...EMPTY,
    name: 'web',
    tags: 'v1, stable',
    memoryMB: 2048,
    image: ' python:3.12 ',
    user: 'me',
    password: 'x',
  };
  assert.deepEqual(orderOf(draft), { name: 'web', tags: ['v1', 'stable'], memoryMB: 2048 });
  assert.deepEqual(startOf('image', draft), {
    fromImage: 'python:3.12',
    fromImageRegistry: { type: 'registry', username: 'me', password: 'x' },
  });
  assert.equal(startOf('dockerfile', draft).fromImageRegistry, undefined);
});

test('snippets hold no password and quote what they are given', () => {
  const draft = { ...EMPTY, name: 'web', image: 'a/b', user: 'me', password: 'hunter2', startCmd: "echo 'a'; reboot" };
  for (const kind of ['image', 'dockerfile', 'sandbox'] as const) {
    for (const { text } of snippetsOf(kind, draft)) assert.ok(!text.includes('hunter2'), text);
  }
  const [command, api] = snippetsOf('image', draft);
  assert.ok(command?.text.includes(`--start 'echo '\\''a'\\''; reboot'`), command?.text);
  assert.match(api?.text ?? '', /builds\/\$BUILD"/);
});
