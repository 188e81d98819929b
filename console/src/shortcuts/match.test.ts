import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advance, nameOf, readable } from './match';

const press = (key: string, more: Partial<{ metaKey: boolean; ctrlKey: boolean; altKey: boolean }> = {}) => ({
  key,
  metaKey: false,
  ctrlKey: false,
  altKey: false,
  ...more,
});

test('names of presses', () => {
  assert.equal(nameOf(press('K', { metaKey: true }), true), 'mod+k');
  assert.equal(nameOf(press('k', { ctrlKey: true }), false), 'mod+k');
  assert.equal(nameOf(press('k', { metaKey: true }), false), 'other+k');
  assert.equal(nameOf(press('?'), false), '?');
  assert.equal(nameOf(press(' '), false), 'space');
});

test('sequences', () => {
  const all = [{ keys: 'g s' }, { keys: 'g t' }, { keys: 'c' }, { keys: 's', page: true }];
  assert.deepEqual(advance(all, '', 'g'), { pressed: 'g' });
  assert.equal(advance(all, 'g', 's').match, all[0]);
  assert.equal(advance(all, 'g', 'c').match, all[2]);
  assert.deepEqual(advance(all, 'g', 'x'), { pressed: '' });
  assert.equal(advance(all, '', 's').match, all[3]);
  assert.deepEqual(advance(all, 'g', 'g'), { pressed: 'g' });
});

test('the newest wins', () => {
  const all = [
    { keys: 'c', of: 'shell' },
    { keys: 'c', of: 'page' },
  ];
  assert.equal(advance(all, '', 'c').match?.of, 'page');
});

test('keys for people', () => {
  assert.deepEqual(readable('mod+k', true), ['⌘K']);
  assert.deepEqual(readable('mod+enter', false), ['Ctrl ⏎']);
  assert.deepEqual(readable('g s', true), ['G', 'S']);
});
