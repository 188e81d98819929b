import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costText, messageOf, repeated, toolsFor } from './body';

const file = { id: 'att_1', name: 'a.csv', mediaType: 'text/csv', size: 3 };
const rect = { x: 1, y: 2, width: 3, height: 4 };
const viewport = { width: 800, height: 600, dpr: 2 };

test('a text with files is a prompt, screenshots and bare files are parts', () => {
  assert.deepEqual(messageOf(' hi ', []), { prompt: 'hi' });
  assert.deepEqual(messageOf('hi', [file]), { prompt: 'hi', attachments: ['att_1'] });
  assert.deepEqual(messageOf('', [file]), { content: [{ type: 'file', attachmentId: 'att_1', name: 'a.csv' }] });
  const shot = { ...file, mediaType: 'image/png', shot: { serviceId: 'svc_1', path: '/x', rect, viewport } };
  assert.deepEqual(messageOf('look', [shot, { ...file, mediaType: 'image/png' }]), {
    content: [
      { type: 'text', text: 'look' },
      { type: 'screenshot', attachmentId: 'att_1', serviceId: 'svc_1', path: '/x', rect, viewport },
      { type: 'image', attachmentId: 'att_1' },
    ],
  });
});

test('the switch sends tools only where the chat has others', () => {
  assert.equal(toolsFor(true, null), undefined);
  assert.deepEqual(toolsFor(false, null), []);
  assert.equal(toolsFor(true, [{ type: 'sandbox' }]), undefined);
  assert.deepEqual(toolsFor(false, [{ type: 'sandbox' }]), []);
  assert.equal(toolsFor(false, []), undefined);
  assert.equal(toolsFor(true, [])?.[0]?.type, 'sandbox');
});

test('a message is said once more without what the server added', () => {
  const said = repeated([
    { type: 'text', text: 'hi' },
    { type: 'file', attachmentId: 'a', name: 'n', path: '/home/user/n' },
  ]);
  assert.deepEqual(said.content?.[1], { type: 'file', attachmentId: 'a', name: 'n' });
});

test('costs in words', () => {
  assert.equal(costText(null), null);
  assert.equal(costText(0), '0.00');
  assert.equal(costText(400), '< 0.01');
  assert.equal(costText(31_000), '0.03');
});
