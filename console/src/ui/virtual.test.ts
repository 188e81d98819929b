import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closedOffset, rangeOf, reveal, select, topOf } from './virtual';

test('draws what is seen and a little more', () => {
  assert.deepEqual(rangeOf(10_000, 38, 0, 760), { start: 0, end: 28 });
  assert.deepEqual(rangeOf(10_000, 38, 38_000, 760), { start: 992, end: 1028 });
  assert.deepEqual(rangeOf(10, 38, 0, 760), { start: 0, end: 10 });
  assert.deepEqual(rangeOf(0, 38, 0, 760), { start: 0, end: 0 });
  assert.deepEqual(rangeOf(100, 38, -900, 200), { start: 0, end: 0 });
  assert.deepEqual(rangeOf(5, 38, 99_999, 200), { start: 5, end: 5 });
});

test('scrolls no more than it must', () => {
  assert.equal(reveal(0, 38, 0, 380), 0);
  assert.equal(reveal(20, 38, 0, 380), 418);
  assert.equal(reveal(0, 38, 100, 380, 34), -134);
});

test('selects one, or a stretch', () => {
  const keys = ['a', 'b', 'c', 'd'];
  assert.deepEqual([...select(new Set(), keys, 1, null, true)], ['b']);
  assert.deepEqual([...select(new Set(['a']), keys, 3, 1, true)], ['a', 'b', 'c', 'd']);
  assert.deepEqual([...select(new Set(keys), keys, 1, 2, false)], ['a', 'd']);
});

test('one row may have more below it', () => {
  const opened = { index: 2, height: 100 };
  assert.deepEqual(
    [0, 2, 3].map((index) => topOf(index, 38, opened)),
    [0, 76, 214],
  );
  assert.equal(topOf(3, 38, null), 114);
  assert.equal(closedOffset(50, 38, opened), 50);
  assert.equal(closedOffset(150, 38, opened), 114);
  assert.equal(closedOffset(300, 38, opened), 200);
});
