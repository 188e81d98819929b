import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describe, describeAll } from './describe';
import { MOST_PIXELS } from './messages';
import { budget, cut, textOf, wrap } from './natives';
import { shortAddress } from './requests';
import { scaleFor, within } from './size';

test('values in words are bounded and call nothing of the page', () => {
  assert.equal(describe('x'.repeat(50), 10), 'x'.repeat(10));
  assert.equal(describe({ a: 1, b: { c: 2 }, s: 'text' }, 100), '{a: 1, b: {…}, s: "text"}');
  assert.equal(describe([1, null, undefined], 100), '[1, null, undefined]');
  assert.match(describe(new TypeError('no'), 500), /^TypeError: no/);
  const trap = {
    get field() {
      throw new Error('read');
    },
    toString() {
      throw new Error('called');
    },
  };
  assert.equal(describe(trap, 100), '{field: undefined, toString: function}');
  const hostile = new Proxy({}, { ownKeys: () => assert.fail('trap') as never, getPrototypeOf: () => null });
  assert.equal(describe(hostile, 100), '');
  assert.equal(textOf(trap, 10), '');
  assert.equal(describe(Symbol('s'), 100), 'Symbol(s)');
  const wide = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`k${i}`, 'v'.repeat(10_000)]));
  assert.ok(describe(wide, 100_000).length < 5000);
});

test('an error of a browser whose stack has no message keeps both', () => {
  const error = new Error('broken');
  error.stack = 'f@http://x/a.js:1:2';
  assert.equal(describe(error, 500), 'Error: broken\nf@http://x/a.js:1:2');
  error.stack = undefined;
  assert.equal(describe(error, 500), 'Error: broken');
});

test('arguments of console.error are one text', () => {
  assert.equal(describeAll(['%s is %d %c!', 'it', 5, 'color: red', 'more'], 100), 'it is 5 ! more');
  assert.equal(describeAll(['100%% %s'], 100), '100% %s');
  assert.equal(describeAll([{ a: 1 }, 'b'], 100), '{a: 1} b');
  assert.equal(describeAll([], 100), '');
  assert.equal(describeAll(['%s', '%s'], 100), '%s');
  assert.equal(describeAll(Array(1000).fill('y'.repeat(100)), 2000).length, 2000);
});

test('a budget allows so many in a time, and recovers', () => {
  const allowed = budget(3, 100);
  assert.deepEqual([1, 2, 3, 4, 99].map(allowed), [true, true, true, false, false]);
  assert.equal(allowed(101), true);
  assert.deepEqual([101, 101, 101].map(allowed), [true, true, false]);
  // The clock was set back.
  assert.equal(allowed(5), true);
});

test('a wrapped function keeps what it is, and what it throws', () => {
  const owner = {
    add(a: number, b: number) {
      if (a < 0) throw new RangeError('negative');
      return a + b;
    },
  };
  const seen: unknown[] = [];
  wrap(owner, 'add', (original, self, args) => {
    const result = Reflect.apply(original, self, args);
    seen.push(result);
    return result;
  });
  assert.equal(owner.add(1, 2), 3);
  assert.equal(owner.add.name, 'add');
  assert.equal(owner.add.length, 2);
  assert.throws(() => owner.add(-1, 2), RangeError);
  assert.deepEqual(seen, [3]);
  const frozen = Object.freeze({ f: () => 1 });
  wrap(frozen, 'f', () => 2);
  wrap(frozen, 'missing', () => 2);
  assert.equal(frozen.f(), 1);
});

test('addresses of the page itself are short', () => {
  assert.equal(shortAddress('http://a:1/x?y', 'http://a:1'), '/x?y');
  assert.equal(shortAddress('http://a:11/x', 'http://a:1'), 'http://a:11/x');
  assert.equal(shortAddress(`http://a:1/${'x'.repeat(999)}`, 'http://a:1').length, 300);
  assert.equal(cut('abc', 5), 'abc');
});

test('what is drawn is within the viewport and at most 4 megapixels', () => {
  const viewport = { width: 800, height: 600 };
  assert.deepEqual(within(viewport), { x: 0, y: 0, width: 800, height: 600 });
  assert.deepEqual(within(viewport, { x: -5, y: 590.5, width: 20, height: 50 }), {
    x: 0,
    y: 590,
    width: 15,
    height: 10,
  });
  for (const odd of [Number.NaN, Number.POSITIVE_INFINITY, -1e9, 1e9, 'x' as unknown as number]) {
    const rect = within(viewport, { x: odd, y: odd, width: odd, height: odd });
    assert.ok(rect.x >= 0 && rect.y >= 0 && rect.width >= 1 && rect.height >= 1, String(odd));
    assert.ok(rect.x + rect.width <= 800 && rect.y + rect.height <= 600, String(odd));
  }
  assert.equal(scaleFor(viewport, 2, MOST_PIXELS), 2);
  assert.equal(scaleFor(viewport, Number.NaN, MOST_PIXELS), 1);
  for (let i = 0; i < 500; i++) {
    const size = { width: 1 + Math.floor(Math.random() * 8000), height: 1 + Math.floor(Math.random() * 8000) };
    const scale = scaleFor(size, 1 + Math.random() * 3, MOST_PIXELS);
    assert.ok(Math.ceil(size.width * scale) * Math.ceil(size.height * scale) <= MOST_PIXELS, JSON.stringify(size));
  }
});
