import assert from 'node:assert/strict';
import { test } from 'node:test';
import { batches, itemOf, shares } from './upload';

const item = (size: number) => itemOf('a', { size } as Blob);

test('uploads go in batches', () => {
  assert.deepEqual(batches([]), []);
  assert.deepEqual(
    batches(Array.from({ length: 120 }, () => item(1))).map((batch) => batch.length),
    [50, 50, 20],
  );
  const large = 100 * 1024 * 1024;
  assert.deepEqual(
    batches([item(1), item(large), item(1), item(2)]).map((batch) => batch.map((one) => one.file.size)),
    [[1], [large], [1, 2]],
  );
});

test('progress of each file', () => {
  assert.deepEqual(shares([10, 20, 30], 30, 60), [10, 20, 0]);
  assert.deepEqual(shares([10, 20, 30], 60, 60), [10, 20, 30]);
  assert.deepEqual(shares([0, 0], 5, 10), [0, 0]);
  assert.deepEqual(shares([5], 0, 0), [0]);
});
