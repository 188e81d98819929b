import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Directory, FileEntry } from '../../../api';
import { parseCsv, separatorOf } from './csv';
import { imageType, isIn, kindOf, nameError, parentOf, pieces, plain, resolve } from './names';
import { flatten, shownDirectories } from './tree-model';

test('names show what is in them', () => {
  assert.equal(plain('a\nb'), 'a\\nb');
  assert.equal(plain('\u202egpj.exe'), 'U+202Egpj.exe');
  assert.equal(plain('\u001b[31m'), '\\e[31m');
  assert.equal(plain('<img src=x>'), '<img src=x>');
  assert.equal(plain('x'.repeat(1000)).length, 301);
  assert.deepEqual(pieces('a\u200bb'), [{ text: 'a' }, { text: 'U+200B', mark: true }, { text: 'b' }]);
});

test('paths', () => {
  assert.equal(parentOf('/home/user/a'), '/home/user');
  assert.equal(parentOf('/a'), '/');
  assert.equal(resolve('/home/user', '../x/./y'), '/home/x/y');
  assert.equal(resolve('/home', '/etc/'), '/etc');
  assert.equal(resolve('/', '../../..'), '/');
  assert.ok(isIn('/a', '/a/b'));
  assert.ok(!isIn('/a', '/ab'));
  assert.equal(nameError('a.txt'), null);
  for (const bad of ['', '..', 'a/../b', 'a/', 'x'.repeat(256), 'a\0']) assert.ok(nameError(bad), bad);
});

test('kinds of files', () => {
  const file = { name: 'a.txt', type: 'file', size: 10, binary: false, mediaType: null };
  assert.equal(kindOf(file), 'text');
  assert.equal(kindOf({ ...file, name: 'a.svg' }), 'text');
  assert.equal(kindOf({ ...file, name: 'a.html' }), 'text');
  assert.equal(kindOf({ ...file, name: 'A.CSV' }), 'csv');
  assert.equal(kindOf({ ...file, name: 'README.md' }), 'markdown');
  assert.equal(kindOf({ ...file, binary: true, mediaType: 'image/png' }), 'image');
  assert.equal(kindOf({ ...file, binary: true, mediaType: 'application/vnd.sqlite3' }), 'sqlite');
  assert.equal(kindOf({ ...file, binary: true, mediaType: 'application/pdf' }), 'binary');
  assert.equal(kindOf({ ...file, size: 500e6 }), 'large');
  assert.equal(kindOf({ ...file, name: 'x.db', size: 500e6 }), 'sqlite');
  assert.equal(kindOf({ ...file, type: 'other' }), 'special');
  assert.equal(imageType(new TextEncoder().encode('<svg onload=alert(1)>')), null);
  assert.equal(imageType(new Uint8Array([0xff, 0xd8, 0xff, 0xe0])), 'image/jpeg');
});

test('CSV', () => {
  assert.deepEqual(parseCsv('a,b\n"x ""y""","1\n2"\r\n,\n').rows, [
    ['a', 'b'],
    ['x "y"', '1\n2'],
    ['', ''],
  ]);
  assert.deepEqual(parseCsv('a;b;c\n1;2').rows, [
    ['a', 'b', 'c'],
    ['1', '2'],
  ]);
  assert.equal(separatorOf('a\tb,c\td'), '\t');
  assert.deepEqual(parseCsv('"never ends').rows, [['never ends']]);
  assert.deepEqual(parseCsv('').rows, []);
  const wide = parseCsv(`${'x,'.repeat(500)}x`);
  assert.equal(wide.columns, 200);
  assert.ok(wide.truncated);
});

test('rows of the tree', () => {
  const entry = (path: string, type: FileEntry['type']): FileEntry => ({
    name: path.slice(path.lastIndexOf('/') + 1),
    path,
    type,
    size: 0,
    mode: '0644',
    modifiedAt: '',
    target: null,
  });
  const directory = (path: string, entries: FileEntry[]): [string, { data: Directory }] => [
    path,
    { data: { path, entries, truncated: false } },
  ];
  const listings = new Map([directory('/h', [entry('/h/src', 'directory'), entry('/h/a', 'file')])]);
  const open = new Set(['/h/src', '/elsewhere']);
  assert.deepEqual(
    flatten('/h', listings, open).map((row) => (row.kind === 'entry' ? row.entry.name : row.note)),
    ['src', 'loading', 'a'],
  );
  listings.set(...directory('/h/src', []));
  assert.deepEqual(
    flatten('/h', listings, open).map((row) => [row.level, row.kind === 'entry' ? row.entry.name : row.note]),
    [
      [1, 'src'],
      [2, 'empty'],
      [1, 'a'],
    ],
  );
  assert.deepEqual(shownDirectories('/h', listings, open), ['/h', '/h/src']);
});
