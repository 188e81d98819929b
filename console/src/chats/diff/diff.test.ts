import assert from 'node:assert/strict';
import { test } from 'node:test';
import { took } from '../took';
import { compare, countsOf, diffOfCall, type FileDiff, readPatch } from '.';

const short = (file: FileDiff) =>
  file.lines.map(
    (line) =>
      `${{ same: ' ', add: '+', del: '-', gap: '@' }[line.kind]}${line.old ?? ''}:${line.new ?? ''} ${line.text}`,
  );

test('unified diffs', () => {
  const [file] = readPatch(
    '--- a/src/x.js\t2026\n+++ b/src/x.js\n@@ -18,3 +18,3 @@ class A\n a\n-b\n+c\n d\n@@ -40 +40,2 @@\n e\n+f\n\\ No newline\n',
  );
  assert.equal(file!.path, 'src/x.js');
  assert.deepEqual([file!.added, file!.removed, file!.change], [2, 1, 'edit']);
  assert.deepEqual(short(file!), [
    '@: class A',
    ' 18:18 a',
    '-19: b',
    '+:19 c',
    ' 20:20 d',
    '@: ',
    ' 40:40 e',
    '+:41 f',
  ]);
});

test('diffs of git with several files', () => {
  const files = readPatch(
    [
      'diff --git a/new.txt b/new.txt\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+a\n+--- b\n',
      'diff --git a/old.txt b/old.txt\ndeleted file mode 100644\n--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n',
      'diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n',
      'diff --git a/p b/p\n--- a/p\n+++ b/p\n@@ -1,2 +1,2 @@\n--- sql comment\n+++ sql comment\n a\n',
    ].join(''),
  );
  assert.deepEqual(
    files.map(({ path, from, change, added, removed }) => [path, from, change, added, removed]),
    [
      ['new.txt', null, 'create', 2, 0],
      ['old.txt', null, 'delete', 0, 1],
      ['y', 'x', 'rename', 0, 0],
      ['p', null, 'edit', 1, 1],
    ],
  );
  assert.deepEqual(countsOf(files), { added: 3, removed: 2 });
});

test('a diff without git’s lines, of two files', () => {
  const files = readPatch('--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n--- b\n+++ b\n@@ -1 +1 @@\n-x\n+y\n');
  assert.deepEqual(
    files.map((file) => [file.path, file.added, file.removed]),
    [
      ['a', 1, 1],
      ['b', 1, 1],
    ],
  );
});

test('begin patch', () => {
  const files = readPatch(
    '*** Begin Patch\n*** Add File: a.txt\n+x\n+y\n*** Update File: b.py\n*** Move to: c.py\n@@ def f():\n a\n-b\n+c\n*** Delete File: d\n*** End Patch\n',
  );
  assert.deepEqual(
    files.map(({ path, from, change, added, removed }) => [path, from, change, added, removed]),
    [
      ['a.txt', null, 'create', 2, 0],
      ['c.py', 'b.py', 'rename', 1, 1],
      ['d', null, 'delete', 0, 0],
    ],
  );
  assert.deepEqual(short(files[0]!), ['+:1 x', '+:2 y']);
  assert.deepEqual(short(files[1]!), ['@: def f():', ' : a', '-: b', '+: c']);
});

test('any beginning of a patch can be read', () => {
  for (const patch of [
    'diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n',
    '*** Begin Patch\n*** Update File: b.py\n@@\n-a\n+b\n*** End Patch',
    'nonsense\n@@ what @@\n+a\n',
  ]) {
    for (let end = 0; end <= patch.length; end++) readPatch(patch.slice(0, end));
  }
  assert.deepEqual(short(readPatch('@@ @@\n-a\n+b')[0]!), ['-: a', '+: b']);
});

test('two texts', () => {
  assert.deepEqual(short(compare('x', 'a\nb\nc\n', 'a\nx\nc\n')), [' 1:1 a', '-2: b', '+:2 x', ' 3:3 c']);
  assert.deepEqual(short(compare('x', '', 'a\nb')), ['+:1 a', '+:2 b']);
  assert.deepEqual(short(compare('x', 'a', '')), ['-1: a']);
  assert.deepEqual(short(compare('x', 'a\n', 'a\n')), []);
  const far = Array.from({ length: 30 }, (_, i) => `${i}`);
  const changed = far.with(10, 'x').with(25, 'y');
  assert.deepEqual(short(compare('x', far.join('\n'), changed.join('\n'))), [
    ' 8:8 7',
    ' 9:9 8',
    ' 10:10 9',
    '-11: 10',
    '+:11 x',
    ' 12:12 11',
    ' 13:13 12',
    ' 14:14 13',
    '@: ',
    ' 23:23 22',
    ' 24:24 23',
    ' 25:25 24',
    '-26: 25',
    '+:26 y',
    ' 27:27 26',
    ' 28:28 27',
    ' 29:29 28',
  ]);
});

test('comparing gives back both texts', () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * below);
  };
  for (let i = 0; i < 300; i++) {
    const make = () => Array.from({ length: random(12) }, () => 'abc'[random(3)]!);
    const [old, now] = [make(), make()];
    // A change in each line's surroundings, so that nothing is folded.
    const { lines, added, removed } = compare('x', old.join('\n'), now.join('\n'));
    if (lines.some((line) => line.kind === 'gap') || lines.length === 0) continue;
    const first = lines[0]!;
    if ((first.old ?? first.new) !== 1) continue;
    const from = lines.filter((line) => line.kind !== 'add').map((line) => line.text);
    const to = lines.filter((line) => line.kind !== 'del').map((line) => line.text);
    assert.deepEqual(from, old.slice(0, from.length));
    assert.deepEqual(to, now.slice(0, to.length));
    assert.equal(added - removed, now.length - old.length);
  }
});

test('calls of tools', () => {
  const write = diffOfCall('sandbox_write_file', { path: 'a.py', content: 'x\ny\n' })!;
  assert.deepEqual([write[0]!.path, write[0]!.change, write[0]!.added], ['a.py', 'create', 2]);
  const again = diffOfCall(
    'sandbox_write_file',
    { path: 'a', content: 'x\ny\n' },
    { created: false, added: 1, removed: 3 },
  );
  assert.deepEqual(countsOf(again!), { added: 1, removed: 3 });
  const replace = diffOfCall('sandbox_find_replace', { path: 'a', find: 'x\ny', replace: 'x\nz' })!;
  assert.deepEqual(short(replace[0]!), [' : x', '-: y', '+: z']);
  const done = diffOfCall(
    'sandbox_find_replace',
    { path: 'a', find: 'x', replace: 'y' },
    { diff: '@@ -5 +5 @@\n-x\n+y\n' },
  )!;
  assert.deepEqual(short(done[0]!), ['-5: x', '+:5 y']);
  assert.equal(done[0]!.path, 'a');
  assert.equal(diffOfCall('sandbox_find_replace', { path: 'a', find: 'x', regex: true }), null);
  assert.equal(diffOfCall('sandbox_read_file', { path: 'a' }), null);
  for (const wrong of [null, 'text', [], { path: 1, content: {}, patch: null }]) {
    for (const name of ['sandbox_write_file', 'sandbox_find_replace', 'sandbox_apply_patch'])
      diffOfCall(name, wrong, wrong);
  }
});

test('hostile texts are bounded', () => {
  const lines = (n: number, word: string) => Array.from({ length: n }, (_, i) => `${word}${i}`).join('\n');
  for (const [name, run] of Object.entries({
    different: () => [compare('x', lines(100_000, 'a'), lines(100_000, 'b'))],
    alike: () => [compare('x', 'a\nb\n'.repeat(100_000), 'b\na\n'.repeat(100_000))],
    long: () => [compare('x', '', 'x'.repeat(5_000_000))],
    patch: () => readPatch(`--- a\n+++ b\n@@ -1,1 +1,999999999 @@\n${'+a\n'.repeat(500_000)}`),
    heads: () => readPatch('--- a\n+++ b\n'.repeat(100_000)),
    hunks: () => readPatch(`--- a\n+++ b\n${'@@ -1 +1 @@\n'.repeat(100_000)}`),
    files: () => readPatch(`*** Begin Patch\n${'*** Add File: a\n'.repeat(100_000)}`),
  })) {
    const ms = took(run, 500);
    assert.ok(ms < 500, `${name}: ${ms.toFixed(0)} ms`);
    const files: FileDiff[] = run();
    assert.ok(files.length <= 100, name);
    for (const file of files) assert.ok(file.lines.length <= 2000, name);
  }
});
