import assert from 'node:assert/strict';
import { test } from 'node:test';
import { highlight } from './highlight';

test('code has colours, and all of its text', async () => {
  for (const [name, text, kind] of [
    ['ts', 'const a: number = 1;\n\n// b\n', 'k'],
    ['python', 'def f():\n  return "a"\n', 'st'],
    ['bash', 'if true; then echo "a"; fi\n', 'k'],
    ['app.py', 'x = 1', 'nu'],
    ['json', '{"a": [1, null]}', 'nu'],
  ] as const) {
    const pieces = (await highlight(text, name))!;
    assert.equal(pieces.map(([words]) => words).join(''), text, name);
    assert.ok(
      pieces.some((piece) => piece[1] === kind),
      name,
    );
  }
});

test('what is no language has none', async () => {
  assert.equal(await highlight('a', 'no-such-language'), null);
});

test('hostile code is bounded', async () => {
  await highlight('x', 'js');
  for (const text of ['('.repeat(50_000), '`${'.repeat(16_000), '/'.repeat(50_000), 'a'.repeat(50_000)]) {
    const begin = performance.now();
    const pieces = (await highlight(text, 'js'))!;
    assert.equal(pieces.map(([words]) => words).join(''), text);
    assert.ok(performance.now() - begin < 2000, `${text.slice(0, 8)}: ${performance.now() - begin} ms`);
  }
});
