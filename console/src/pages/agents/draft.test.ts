import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Agent } from '../../api/chat-types';
import { bodyOf, clientOf, commandOf, draftOf, EMPTY, newBodyOf, problemsOf, rule } from './draft';

const agent: Agent = {
  id: 'agent_a',
  name: 'Builder',
  description: 'Builds',
  kind: 'loop',
  model: 'demo/demo',
  system: 'Be short.',
  tools: [
    {
      type: 'sandbox',
      template: 'python',
      cpuCount: 2,
      memoryMB: 1024,
      names: ['main', 'db'],
      allow: ['sandbox_*'],
      approve: { sandbox_run_command: 'ask', sandbox_delete_file: 'never' },
    },
    { type: 'ask' },
    { type: 'function', name: 'f', description: '', parameters: { type: 'object' } },
  ],
  limits: { maxSteps: 20, maxMinutes: 5, maxCostMicros: 1_500_000 },
  suggestions: ['One', 'Two'],
  createdAt: '',
  updatedAt: '',
};

test('an agent that is not changed is sent as it was', () => {
  const { name, description, model, system, tools, limits, suggestions } = agent;
  assert.deepEqual(bodyOf(draftOf(agent)), { name, description, model, system, tools, limits, suggestions });
});

test('a new one', () => {
  assert.deepEqual(newBodyOf({ ...EMPTY, name: ' x ' }), {
    name: 'x',
    tools: [{ type: 'sandbox' }, { type: 'services' }, { type: 'ask' }],
    limits: { maxSteps: 50, maxMinutes: 60, maxCostMicros: null },
  });
  const none = { ...EMPTY, name: 'x', sandbox: false, services: false, ask: false, rules: [rule('a')] };
  assert.deepEqual(newBodyOf(none).tools, []);
  assert.equal(bodyOf({ ...EMPTY, maxCost: 0.1 }).limits?.maxCostMicros, 100_000);
});

test('what is wrong', () => {
  assert.deepEqual([...problemsOf(draftOf(agent))], []);
  assert.deepEqual([...problemsOf(EMPTY)], ['name']);
  assert.deepEqual([...problemsOf({ ...EMPTY, name: 'a/b' })], ['name']);
  const wrong = {
    ...EMPTY,
    name: 'a',
    system: 'x'.repeat(70_000),
    allow: 'ok, no;',
    rules: [rule('a*'), rule('a*')],
    suggestions: 'x'.repeat(301),
  };
  assert.deepEqual([...problemsOf(wrong)], ['system', 'allow', 'rules', 'suggestions']);
});

test('as a command', () => {
  const draft = { ...EMPTY, name: 'x', template: 'python', system: "It's", suggestions: 'a b' };
  assert.equal(commandOf(draft), "cabana agent create x --system 'It'\\''s' --template python --suggestion 'a b'");
  assert.equal(
    commandOf({ ...draft, sandbox: false, services: false, system: '', suggestions: '' }),
    'cabana agent create x --no-sandbox',
  );
  assert.equal(commandOf({ ...draft, rules: [rule('a')] }), null);
  assert.equal(commandOf({ ...draft, ask: false }), null);
  assert.equal(commandOf({ ...draft, maxSteps: 3 }), null);
});

test('names are quoted in the snippet', () => {
  assert.ok(clientOf('http://a', 'x"y').includes('model="agent/x\\"y"'));
});
