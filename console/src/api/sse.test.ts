import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventParser, eventsOf } from './sse';

const TEXT = ': ping\n\nevent: lines\ndata: {"a":\ndata: 1}\n\ndata:x\n\nevent: end\ndata: {}\n\n';
const WANTED = [
  { event: 'lines', data: '{"a":\n1}' },
  { event: 'message', data: 'x' },
  { event: 'end', data: '{}' },
];

test('events, wherever the stream is cut', () => {
  for (const text of [TEXT, TEXT.replaceAll('\n', '\r\n')]) {
    for (let size = 1; size < 9; size++) {
      const parser = new EventParser();
      const events = [];
      for (let i = 0; i < text.length; i += size) events.push(...parser.push(text.slice(i, i + size)));
      assert.deepEqual(events, WANTED, `${size}`);
    }
  }
});

test('what has not ended is no event', () => {
  assert.deepEqual(new EventParser().push('event: lines\ndata: {}\n'), []);
});

test('events of an answer', async () => {
  const events = [];
  for await (const event of eventsOf(new Response(`${TEXT}data: lost`))) events.push(event);
  assert.deepEqual(events, WANTED);
});
