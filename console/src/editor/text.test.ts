import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byteLength, decode, isPlain } from './text';

const bytes = (text: string) => new TextEncoder().encode(text);

test('texts keep their line breaks and marks', () => {
  assert.deepEqual(decode(bytes('a\nb')), { text: 'a\nb', separator: '\n' });
  assert.deepEqual(decode(bytes('a\r\nb\r\n')), { text: 'a\r\nb\r\n', separator: '\r\n' });
  assert.equal(decode(bytes('a\r\nb\n'))!.separator, '\n');
  assert.equal(decode(bytes('\ufeffa'))!.text, '\ufeffa');
  assert.deepEqual(decode(new Uint8Array()), { text: '', separator: '\n' });
});

test('what is not UTF-8 is no text', () => {
  assert.equal(decode(new Uint8Array([0x61, 0xff])), null);
  assert.equal(decode(bytes('a\0b')), null);
});

test('lengths', () => {
  assert.equal(byteLength('é'), 2);
  assert.ok(isPlain('x'.repeat(30_000)));
  assert.ok(!isPlain('x\n'.repeat(30_000)));
});
