import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NAME, needsFiles, problemOf } from './dockerfile';
import { CATEGORIES, RECIPES } from './recipes';

test('problems', () => {
  assert.equal(problemOf('  \n'), 'empty');
  assert.equal(problemOf('RUN true'), 'from');
  assert.equal(problemOf('# comment\nARG V=1\nfrom base\n'), null);
  assert.equal(problemOf(`FROM base\n${'#'.repeat(1024 * 1024)}`), 'large');
});

test('files that stand beside it', () => {
  assert.ok(needsFiles('FROM base\nCOPY . /app'));
  assert.ok(needsFiles('FROM base\nCOPY --chown=user \\\n  a /b'));
  assert.ok(!needsFiles('FROM base\nCOPY --from=x /a /b'));
  assert.ok(!needsFiles('FROM base\n# COPY . /app\nRUN echo COPY x y'));
  assert.ok(!needsFiles('FROM base\nCOPY <<END /etc/x\na\nEND'));
});

test('names', () => {
  for (const name of ['web', 'web:v2', 'a_b-c:1.2']) assert.match(name, NAME);
  for (const name of ['', 'Web', 'a b', 'web:', '-x', 'a/b']) assert.doesNotMatch(name, NAME);
});

test('recipes build as they are', () => {
  assert.equal(new Set(RECIPES.map((recipe) => recipe.name)).size, RECIPES.length);
  for (const recipe of RECIPES) {
    assert.match(recipe.name, NAME);
    assert.equal(problemOf(recipe.dockerfile), null, recipe.name);
    assert.ok(!needsFiles(recipe.dockerfile), recipe.name);
    assert.match(recipe.dockerfile, /^FROM base\n/);
    assert.match(recipe.dockerfile, /\nUSER user\nWORKDIR \/home\/user\n$/);
    assert.ok(recipe.glyph.length <= 3 && CATEGORIES.includes(recipe.category));
    assert.ok(
      recipe.dockerfile.split('\n').every((line) => line.length <= 120),
      recipe.name,
    );
  }
});
