import assert from 'node:assert/strict';
import { test } from 'node:test';
import { safeTarget, signInPath } from './sign-in-path';

test('leads to pages of the console only', () => {
  assert.equal(safeTarget('/sandboxes?state=paused'), '/sandboxes?state=paused');
  for (const to of [
    null,
    '',
    '//evil.example',
    '/\\evil.example',
    'https://evil.example',
    'javascript:alert(1)',
    '/sign-in',
    '/welcome',
  ]) {
    assert.equal(safeTarget(to), '/');
  }
});

test('comes back', () => {
  assert.equal(signInPath('/'), '/sign-in');
  assert.equal(signInPath('/a?b=c'), '/sign-in?to=%2Fa%3Fb%3Dc');
});
