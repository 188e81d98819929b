import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadChatPane, storeChatPane } from './kinds';
import { pretty, previewKind, textOf } from './preview';

function storage(first?: string) {
  let value: string | null = first ?? null;
  return {
    getItem: () => value,
    setItem: (_: string, next: string) => {
      value = next;
    },
  };
}

test('a chat’s pane is remembered', () => {
  const kept = storage();
  assert.equal(loadChatPane('chat_a', kept), null);
  storeChatPane('chat_a', { kind: 'service', target: 'svc_x', open: true }, kept);
  storeChatPane('chat_b', { kind: 'files', target: null, open: false }, kept);
  assert.deepEqual(loadChatPane('chat_a', kept), { kind: 'service', target: 'svc_x', open: true });
  for (let i = 0; i < 60; i++) storeChatPane(`chat_${i}`, { kind: 'diff', target: null, open: true }, kept);
  assert.equal(loadChatPane('chat_a', kept), null);
});

test('what is stored may be anything', () => {
  for (const text of ['', '{}', '[1]', '[["a"]]', '[["a",{"kind":"x"}]]', 'nonsense']) {
    assert.equal(loadChatPane('a', storage(text)), null);
  }
  const odd = storage('[["a",{"kind":"diff","target":7,"open":"yes"}]]');
  assert.deepEqual(loadChatPane('a', odd), { kind: 'diff', target: null, open: false });
});

test('how files are shown', () => {
  const kind = (name: string, mediaType: string, size = 10) => previewKind({ name, mediaType, size });
  assert.equal(kind('a.png', 'image/png'), 'image');
  assert.equal(kind('a.png', 'image/png', 1e9), 'none');
  assert.equal(kind('a.svg', 'image/svg+xml'), 'code');
  assert.equal(kind('a.html', 'text/html'), 'code');
  assert.equal(kind('page.md', 'text/plain; charset=utf-8'), 'markdown');
  assert.equal(kind('a.tsv', 'application/octet-stream'), 'csv');
  assert.equal(kind('a.py', 'text/x-python'), 'code');
  assert.equal(kind('a', 'application/octet-stream'), 'code');
  assert.equal(kind('a.sqlite', 'application/octet-stream'), 'none');
  assert.equal(kind('a.html', 'image/avif'), 'none');
  assert.equal(kind('a.pdf', 'application/pdf'), 'none');
});

test('texts', () => {
  const bytes = new TextEncoder().encode('é€');
  assert.equal(textOf(bytes, false), 'é€');
  assert.equal(textOf(bytes.subarray(0, 4), true), 'é');
  assert.equal(textOf(bytes.subarray(0, 4), false), null);
  assert.equal(textOf(new Uint8Array([97, 0, 98]), false), null);
  assert.equal(textOf(new Uint8Array([0xff, 0xfe]), false), null);
  assert.equal(pretty('a.json', '{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(pretty('a.json', '{"a"'), '{"a"');
  assert.equal(pretty('a.txt', '{"a":1}'), '{"a":1}');
});
