import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Service } from '../../../wire';
import { bodyOf, changes, type Draft, isSlugWrong, nameFor, problems, settingsOf, startCommand } from './draft';
import { shownService } from './shown';
import { parseStarted } from './started';
import { append, EMPTY_TAIL, MOST_LINES } from './tail';

const draft = (more: Partial<Draft> = {}): Draft => ({
  name: 'web',
  command: 'npm run dev',
  port: null,
  cwd: '',
  env: [],
  access: 'private',
  ...more,
});

test('what is wrong with a draft', () => {
  assert.deepEqual([...problems(draft())], []);
  assert.deepEqual([...problems(draft({ name: 'A b', command: ' ', port: 0 }))], ['name', 'command', 'port']);
  assert.ok(problems(draft({ port: 65536 })).has('port'));
  assert.ok(problems(draft({ env: [{ name: '', value: 'x' }] })).has('env'));
  assert.ok(problems(draft({ env: [{ name: 'A=', value: 'x' }] })).has('env'));
  const twice = { name: 'A', value: '1' };
  assert.ok(problems(draft({ env: [twice, twice] })).has('env'));
  assert.deepEqual([...problems(draft({ env: [{ name: '', value: '' }] }))], []);
});

test('the body has what was given', () => {
  assert.deepEqual(bodyOf(draft()), { name: 'web', command: 'npm run dev' });
  const env = [
    { name: 'A', value: '1' },
    { name: '', value: '' },
  ];
  assert.deepEqual(bodyOf(draft({ port: 5173, cwd: ' /app ', env, access: 'link' })), {
    name: 'web',
    command: 'npm run dev',
    port: 5173,
    cwd: '/app',
    env: { A: '1' },
    access: 'link',
  });
  assert.equal(bodyOf(draft({ access: 'link' }), 'link').access, undefined);
  assert.equal(bodyOf(draft({ access: 'private' }), 'public').access, 'private');
});

test('the same as a command, quoted', () => {
  assert.equal(startCommand('i1', bodyOf(draft())), "cabana service start i1 -- 'npm run dev'");
  assert.equal(
    startCommand('i1', bodyOf(draft({ name: 'api', port: 80, env: [{ name: 'A', value: "it's" }] }))),
    "cabana service start i1 --name api --port 80 --env 'A=it'\\''s' -- 'npm run dev'",
  );
});

const service = (more: Partial<Service> = {}) =>
  ({
    access: 'private',
    slug: null,
    onWake: 'restart',
    alwaysOn: false,
    hostMode: 'local',
    bridge: true,
    ...more,
  }) as Service;

test('only what differs is sent', () => {
  const one = service();
  assert.deepEqual(changes(one, settingsOf(one)), {});
  assert.deepEqual(changes(one, { ...settingsOf(one), alwaysOn: true, hostMode: 'public', bridge: false }), {
    alwaysOn: true,
    hostMode: 'public',
    bridge: false,
  });
  assert.deepEqual(changes(one, { ...settingsOf(one), access: 'public', slug: ' shop ' }), {
    access: 'public',
    slug: 'shop',
  });
});

test('what is not public has no name below the domain', () => {
  const shop = service({ access: 'public', slug: 'shop' });
  assert.deepEqual(changes(shop, { ...settingsOf(shop), access: 'private' }), { access: 'private', slug: '' });
  assert.ok(isSlugWrong({ ...settingsOf(shop), slug: 'A' }));
  assert.ok(!isSlugWrong({ ...settingsOf(shop), slug: '' }));
  assert.ok(!isSlugWrong({ ...settingsOf(service()), slug: 'A' }));
});

test('names for services of ports', () => {
  assert.equal(nameFor('node', []), 'web');
  assert.equal(nameFor('node', ['web']), 'node');
  assert.equal(nameFor('Python3.11', ['web', 'python311']), 'python311-2');
  assert.equal(nameFor(null, ['web']), 'web-2');
});

test('how a program was started', () => {
  assert.deepEqual(parseStarted("/home/user/app\nnode\nserver.js\nit's me\n"), {
    cwd: '/home/user/app',
    command: "node server.js 'it'\\''s me'",
  });
  for (const text of ['', '[no output]', '/home/user', '/home/user\n', 'x\nnode'])
    assert.equal(parseStarted(text), null);
});

test('a log keeps its newest lines', () => {
  const first = append(EMPTY_TAIL, { lines: ['a', '\u001b[31mred\u001b[0m'], dropped: 7 });
  assert.deepEqual(first, { lines: ['a', 'red'], cut: false, dropped: 7 });
  const long = append(first, { lines: Array.from({ length: MOST_LINES + 5 }, (_, i) => `${i}`), dropped: 0 });
  assert.equal(long.lines.length, MOST_LINES);
  assert.equal(long.lines.at(-1), `${MOST_LINES + 4}`);
  assert.ok(long.cut);
});

test('the service in the address', () => {
  assert.equal(shownService(new URLSearchParams('service=svc_abc1')), 'svc_abc1');
  for (const text of ['', 'service=', 'service=../x', 'service=svc_A', 'service=svc_']) {
    assert.equal(shownService(new URLSearchParams(text)), null);
  }
});
