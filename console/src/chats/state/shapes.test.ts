import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Attachment } from '../../api/chat-types';
import { artifactsByTurn } from './artifacts';
import { blocksOf, itemsOf, rowsOf } from './blocks';
import { argumentLine, titleParts, visible } from './text';
import type { CallView, MessageView } from './types';

const call = (id: string, name: string, given: Partial<CallView> = {}): CallView => ({
  id,
  messageId: 'm',
  name,
  title: '',
  arguments: {},
  sandboxId: null,
  status: 'success',
  output: '',
  data: null,
  error: null,
  truncated: false,
  durationMs: 1,
  attachments: [],
  live: '',
  ...given,
});

const message = (id: string, role: 'user' | 'assistant', given: Partial<MessageView> = {}): MessageView => ({
  id,
  chatId: 'c',
  turnId: 't',
  role,
  author: null,
  status: 'complete',
  content: [],
  calls: [],
  createdAt: '',
  ...given,
});

test('reads fold, other calls stand alone', () => {
  const read = (id: string) => call(id, 'sandbox_read_file');
  const rows = rowsOf([
    read('1'),
    read('2'),
    call('3', 'sandbox_run_command'),
    read('4'),
    call('5', 'sandbox_read_file', { status: 'error' }),
  ]);
  assert.deepEqual(
    rows.map((row) => (row.kind === 'reads' ? row.calls.map((one) => one.id) : row.call.id)),
    [['1', '2'], '3', '4', '5'],
  );
});

test('a run has its calls in boxes, across messages without words', () => {
  const part = (id: string) => ({
    type: 'tool_call' as const,
    toolCallId: id,
    name: 'sandbox_read_file',
    arguments: {},
  });
  const messages = [
    message('u', 'user', { content: [{ type: 'text', text: 'go' }] }),
    message('a', 'assistant', {
      content: [{ type: 'text', text: 'I look.' }, part('1')],
      calls: [call('1', 'sandbox_read_file')],
    }),
    message('b', 'assistant', { content: [part('2')], calls: [call('2', 'sandbox_read_file')] }),
    message('c', 'assistant', {
      content: [{ type: 'text', text: 'Done.' }, part('3'), part('4')],
      calls: [
        call('3', 'sandbox_start_service', { data: { service: { id: 'svc_abc', name: 'web' } } }),
        call('4', 'sandbox_run_command', { status: 'approval' }),
      ],
    }),
  ];
  const items = itemsOf(messages);
  assert.deepEqual(
    items.map((item) => item.kind),
    ['user', 'run'],
  );
  const run = items[1]!;
  const blocks = blocksOf(run.kind === 'run' ? run.messages : []);
  assert.deepEqual(
    blocks.map((block) => block.kind),
    ['text', 'tools', 'text', 'tools', 'ask', 'files'],
  );
  const files = blocks[5]!;
  assert.deepEqual(files.kind === 'files' && files.services, [{ id: 'svc_abc', name: 'web' }]);
});

test('titles, arguments and words', () => {
  assert.deepEqual(titleParts('Run npm test', 'sandbox_run_command'), { verb: 'Run', object: 'npm test' });
  assert.deepEqual(titleParts('', 'sandbox_run_command'), { verb: 'run command', object: '' });
  assert.deepEqual(titleParts('Look up the weather', 'weather'), { verb: 'Look up the weather', object: '' });
  assert.equal(argumentLine({ cwd: '/', command: 'ls\n -l' }), 'ls -l');
  assert.equal(visible('a\u202eb👩‍🚀'), 'a·b👩‍🚀');
});

test('files belong to the turn that left them', () => {
  const at = (minute: number) => `2026-01-01T00:0${minute}:00Z`;
  const file = (id: string, minute: number, kind = 'artifact') => ({ id, kind, createdAt: at(minute) }) as Attachment;
  const made = call('1', 'sandbox_download_url', { attachments: [file('own', 2)] });
  const messages = [
    message('u1', 'user', { turnId: 't1', createdAt: at(1) }),
    message('a1', 'assistant', { turnId: 't1', createdAt: at(2), calls: [made] }),
    // It was said while the first turn ran.
    message('u2', 'user', { turnId: 't2', createdAt: at(2) }),
    message('a2', 'assistant', { turnId: 't2', createdAt: at(5) }),
  ];
  const found = artifactsByTurn(messages, [
    file('x', 3),
    file('y', 6),
    file('own', 2),
    file('up', 3, 'upload'),
    file('old', 0),
  ]);
  assert.deepEqual(
    [...found].map(([turn, files]) => [turn, files.map((one) => one.id)]),
    [
      ['t1', ['x']],
      ['t2', ['y']],
    ],
  );
});
