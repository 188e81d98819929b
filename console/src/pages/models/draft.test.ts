import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bodyOf, draftOf, EMPTY, modelsOf, problemsOf, tomlOf, variableOf } from './draft';

test('what is sent', () => {
  assert.deepEqual(bodyOf(EMPTY), { name: 'anthropic', kind: 'anthropic' });
  const draft = {
    name: 'my-vllm',
    kind: 'openai',
    baseUrl: 'https://a.example/v1',
    key: 'k',
    models: 'a\n b \n\na,c',
  } as const;
  assert.deepEqual(bodyOf(draft), {
    name: 'my-vllm',
    kind: 'openai',
    baseUrl: 'https://a.example/v1',
    key: 'k',
    models: ['a', 'b', 'c'],
  });
  assert.equal(
    tomlOf(draft),
    '[models.providers.my-vllm]\nkind = "openai"\nbase_url = "https://a.example/v1"\nmodels = ["a","b","c"]',
  );
  assert.equal(variableOf('my-vllm'), 'CABANA_MODELS_MY_VLLM_KEY');
});

test('what is wrong', () => {
  assert.deepEqual([...problemsOf(EMPTY)], []);
  assert.deepEqual(
    [...problemsOf({ ...EMPTY, name: 'A b', baseUrl: 'http://x', models: 'a b' })],
    ['name', 'url', 'models'],
  );
  assert.deepEqual(
    [...problemsOf({ ...EMPTY, models: Array.from({ length: 201 }, (_, i) => `m${i}`).join('\n') })],
    ['models'],
  );
});

test('a provider that is there', () => {
  const provider = {
    name: 'x',
    kind: 'openai',
    baseUrl: null,
    hasKey: true,
    models: ['a'],
    scope: 'team',
    createdAt: null,
  } as const;
  assert.deepEqual(draftOf({ ...provider, models: ['a', 'b'] }), {
    name: 'x',
    kind: 'openai',
    baseUrl: '',
    key: '',
    models: 'a\nb',
  });
  assert.deepEqual(modelsOf(''), []);
});
