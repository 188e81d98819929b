import assert from 'node:assert/strict';
import { test } from 'node:test';
import { networkWords } from './network';

const of = (preset: string, network: object) =>
  networkWords({ preset, network: { allowPublicTraffic: true, ...network } });

test('a policy is one sentence', () => {
  assert.equal(of('internet', {}).summary, 'The internet');
  assert.equal(of('none', { denyOut: ['0.0.0.0/0'] }).summary, 'Nothing outside');
  assert.equal(
    of('registries', { denyOut: ['0.0.0.0/0'], allowOut: ['a.example'] }).summary,
    'Package registries only',
  );
  assert.equal(of('custom', { denyOut: ['0.0.0.0/0'], allowOut: ['a.example'] }).summary, 'Only what is allowed');
  assert.equal(of('custom', { denyOut: ['10.0.0.0/8'] }).summary, 'The internet, except what is denied');
});

test('long lists are cut', () => {
  const { details } = of('custom', { allowOut: Array.from({ length: 9 }, (_, i) => `h${i}.example`) });
  assert.match(details[0]?.[1] ?? '', /and 3 more$/);
});
