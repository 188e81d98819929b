import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plain, plainName } from './plain';

test('escape sequences go', () => {
  assert.equal(plain('\u001b[31;1mred\u001b[0m \u001b]8;;http://x\u0007link\u001b]8;;\u0007'), 'red link');
  assert.equal(plain('\u001b]0;title\u001b\\rest'), 'rest');
  assert.equal(plain('\u001b(Ba\u001b7b'), 'ab');
});

test('nothing stays hidden', () => {
  assert.equal(plain('a\u202eb\u200bc\u0000d\ufeff'), 'a·b·c·d·');
  assert.equal(plain('tab\tand\nline'), 'tab\tand\nline');
  assert.equal(plain('\u{e0041}x'), '·x');
});

test('a progress bar is what it was last', () => {
  assert.equal(plain('10 %\r50 %\r100 %'), '100 %');
  assert.equal(plain('windows\r\nlines\r\n'), 'windows\nlines\n');
});

test('text is bounded', () => {
  assert.equal(plain('x'.repeat(50_000), 10), `${'x'.repeat(10)}…`);
  assert.equal(plainName(' a\n b '), 'a b');
  assert.equal(plainName('<b>x</b>'), '<b>x</b>');
});
