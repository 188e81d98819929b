import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sandboxName, shortId, statusOf } from './sandbox';
import { bytes, count, mib, percent, plural } from './size';
import { cli, curl, quote } from './snippet';
import { duration, relative, short, utc } from './time';

test('sizes', () => {
  assert.equal(bytes(0), '0 B');
  assert.equal(bytes(1023), '1023 B');
  assert.equal(bytes(1024), '1 KiB');
  assert.equal(bytes(1024 * 1024 - 1), '1 MiB');
  assert.equal(bytes(2_040_109_465), '1.9 GiB');
  assert.equal(bytes(Number.NaN), '–');
  assert.equal(mib(512), '512 MiB');
  assert.equal(mib(10_240), '10 GiB');
  assert.equal(percent(1, 3), '33 %');
  assert.equal(percent(1, 0), '–');
  assert.equal(count(12345), '12\u202f345');
  assert.equal(plural(1, 'sandbox', 'sandboxes'), '1 sandbox');
  assert.equal(plural(2, 'key'), '2 keys');
});

test('durations', () => {
  assert.equal(duration(0.038), '38 ms');
  assert.equal(duration(8.25), '8.3 s');
  assert.equal(duration(180), '3 m');
  assert.equal(duration(3720), '1 h 02 m');
  assert.equal(duration(7200), '2 h');
  assert.equal(duration(90_000), '1 d 1 h');
  assert.equal(duration(20 * 86_400 + 3600), '20 d');
  assert.equal(duration(-3), '0 ms');
  assert.equal(short(5000), '1 h');
});

test('times', () => {
  const now = Date.UTC(2026, 9, 12, 12);
  assert.equal(relative(now - 1000, now), 'now');
  assert.equal(relative(now - 7_200_000, now), '2 h ago');
  assert.equal(relative(now + 41 * 60_000, now), 'in 41 m');
  assert.equal(relative('nonsense', now), '–');
  assert.match(relative(now - 30 * 86_400_000, now), /^\d+ Sep$/);
  assert.match(relative(now - 400 * 86_400_000, now), /2025$/);
  assert.equal(utc(now), '2026-10-12 12:00:00 UTC');
});

test('states of sandboxes', () => {
  const now = Date.UTC(2026, 9, 12, 12);
  const row = {
    sandboxID: 'i4xq7r1vz0d8k5n3m2c9',
    state: 'running' as const,
    startedAt: new Date(now - 180_000).toISOString(),
  };
  assert.deepEqual(statusOf(row, now), { state: 'running', word: 'Running', detail: '3 m' });
  const failed = { ...row, phase: 'failed', reason: 'the sandbox ran out of memory' };
  assert.equal(statusOf(failed, now).word, 'Failed: ran out of memory');
  assert.equal(statusOf({ ...row, phase: 'paused', state: 'paused' }, now).detail, '3 m ago');
  assert.equal(statusOf({ ...row, phase: 'new phase' }, now).word, 'new phase');
  assert.equal(sandboxName(row), 'i4xq…m2c9');
  assert.equal(sandboxName({ ...row, metadata: { name: 'todo' } }), 'todo');
  assert.equal(shortId('short'), 'short');
});

test('snippets quote what they are given', () => {
  assert.equal(quote('base'), 'base');
  assert.equal(quote(`it's`), `'it'\\''s'`);
  assert.equal(cli('create', '--template', 'a b', undefined, false, 3), "cabana create --template 'a b' 3");
  const text = curl('POST', '/v2/sandboxes', { templateID: "$(reboot)'" }, 'http://h:3000');
  assert.ok(text.includes(`'{"templateID":"$(reboot)'\\''"}'`));
  assert.ok(text.startsWith('curl -X POST http://h:3000/v2/sandboxes'));
});
