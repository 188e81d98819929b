import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TerminalConnection, type TerminalState } from './connection';
import { cleanPaste, hasLines, isReport, lineCount, safeLink, showHidden, titleOf } from './safe';

class FakeSocket {
  binaryType = '';
  readyState = 1;
  sent: (string | Uint8Array)[] = [];
  closed = false;
  onopen = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  readonly address: string;
  constructor(address: string) {
    this.address = address;
  }
  send(data: string | Uint8Array): void {
    this.sent.push(data);
  }
  close(): void {
    this.closed = true;
  }
  say(value: unknown): void {
    this.onmessage?.({ data: JSON.stringify(value) });
  }
  end(code: number, reason = ''): void {
    this.onclose?.({ code, reason });
  }
}

function setup(pid: number | null = null, check?: () => Promise<string | null>) {
  const sockets: FakeSocket[] = [];
  const states: TerminalState[] = [];
  const output: number[] = [];
  const started: { pid: number; replay: boolean }[] = [];
  const timers: (() => void)[] = [];
  const connection = new TerminalConnection({
    address: (pid) => `ws://h/terminal?pid=${pid}`,
    pid,
    onState: (state) => states.push(state),
    onStarted: (value) => started.push(value),
    onOutput: (bytes) => output.push(...bytes),
    check,
    open: (address) => {
      const socket = new FakeSocket(address);
      sockets.push(socket);
      return socket;
    },
    wait: (run) => {
      timers.push(run);
      return () => timers.splice(timers.indexOf(run), 1);
    },
  });
  connection.connect();
  return { connection, sockets, states, output, started, timers, last: () => states.at(-1) };
}

test('a lost connection goes back to the same shell', () => {
  const { connection, sockets, started, timers, output, last } = setup();
  sockets[0]!.say({ started: { pid: 812, replay: false } });
  assert.deepEqual(last(), { kind: 'open' });
  sockets[0]!.onmessage?.({ data: new Uint8Array([65]).buffer });
  assert.deepEqual(output, [65]);
  connection.resize(120, 40);
  assert.equal(sockets[0]!.sent.at(-1), '{"resize":{"cols":120,"rows":40}}');
  sockets[0]!.end(1012);
  assert.deepEqual(last(), { kind: 'lost', reason: null });
  connection.type('x');
  connection.type('y'.repeat(1000));
  timers.shift()!();
  assert.equal(sockets[1]!.address, 'ws://h/terminal?pid=812');
  sockets[1]!.say({ started: { pid: 812, replay: true, dropped: true } });
  assert.equal(started.at(-1)!.replay, true);
  const typed = sockets[1]!.sent.filter((one) => typeof one !== 'string');
  assert.deepEqual(typed, [new TextEncoder().encode('x')], 'keys wait, long texts do not');
  connection.close();
  assert.ok(sockets[1]!.closed);
});

test('endings', () => {
  const cases: [number, unknown, Partial<TerminalState> & { kind: string }][] = [
    [1000, { exitCode: 3, reason: null }, { kind: 'ended', exitCode: 3, reason: null, gone: false }],
    [4404, { exitCode: null, reason: 'the sandbox was killed' }, { kind: 'ended', reason: 'the sandbox was killed' }],
    [4409, { exitCode: null, reason: 'the sandbox was paused' }, { kind: 'paused', reason: 'the sandbox was paused' }],
    [4429, { exitCode: null, reason: 'too many' }, { kind: 'refused', reason: 'too many' }],
    [1013, { exitCode: null, reason: 'does not respond' }, { kind: 'lost', reason: 'does not respond' }],
    [1006, null, { kind: 'lost', reason: null }],
  ];
  for (const [code, ended, expected] of cases) {
    const { sockets, last, timers } = setup();
    sockets[0]!.say({ started: { pid: 1, replay: false } });
    if (ended) sockets[0]!.say({ ended });
    sockets[0]!.end(code);
    const state = last() as unknown as Record<string, unknown>;
    for (const [name, value] of Object.entries(expected)) assert.equal(state[name], value, `${code} ${name}`);
    assert.equal(timers.length, expected.kind === 'lost' ? 1 : 0);
  }
});

test('a socket that never began is looked into', async () => {
  const { sockets, last, timers } = setup(null, () => Promise.resolve('There is no sandbox x'));
  sockets[0]!.end(1006);
  assert.equal(last()!.kind, 'lost');
  await new Promise(setImmediate);
  assert.deepEqual(last(), { kind: 'ended', exitCode: null, reason: 'There is no sandbox x', gone: true });
  assert.equal(timers.length, 0);
});

test('too much output is skipped by a replay', () => {
  const { connection, sockets, timers } = setup(7);
  connection.skip();
  assert.equal(timers.length, 0, 'not before it began');
  sockets[0]!.say({ started: { pid: 7, replay: true } });
  connection.skip();
  assert.ok(sockets[0]!.closed);
  timers.shift()!();
  assert.equal(sockets.length, 2);
});

test('long input goes in pieces', () => {
  const { connection, sockets } = setup(7);
  sockets[0]!.say({ started: { pid: 7, replay: true } });
  connection.type('a'.repeat(70_000));
  assert.deepEqual(
    sockets[0]!.sent.map((one) => one.length),
    [32768, 32768, 4464],
  );
  sockets[0]!.onmessage?.({ data: '{not json' });
});

test('links', () => {
  assert.equal(safeLink('https://example.com/a')?.host, 'example.com');
  assert.equal(safeLink('https://google.com@evil.example/')?.host, 'evil.example');
  assert.equal(safeLink('https://google.com@evil.example/')?.hasUser, true);
  assert.equal(safeLink('https://аррӏе.com/')?.host, 'xn--80ak6aa92e.com');
  for (const bad of ['javascript:alert(1)', 'file:///etc/passwd', 'data:text/html,x', 'ssh://h', 'nonsense', '']) {
    assert.equal(safeLink(bad), null, bad);
  }
});

test('pasted text', () => {
  assert.deepEqual(cleanPaste('a\u001b[201~b\u0007\r\nc\td'), { text: 'a[201~b\nc\td', removed: 2 });
  assert.ok(hasLines('ls\n'));
  assert.equal(lineCount('a\nb\n'), 2);
  assert.equal(showHidden('a\u202eb'), 'a<U+202E>b');
});

test('titles and reports', () => {
  assert.equal(titleOf('user@host: ~/a\u0007\n b'), 'shell ~/a b');
  assert.equal(titleOf('vim: x'), 'vim: x');
  assert.equal(titleOf('\u202egnp.exe'), '<U+202E>gnp.exe');
  assert.ok(titleOf('x'.repeat(5000)).length <= 48);
  for (const report of ['\u001b[?1;2c', '\u001b[24;80R', '\u001b[0n', '\u001b]10;rgb:0/0/0\u001b\\', '\u001bP1$r0m'])
    assert.ok(isReport(report), JSON.stringify(report));
  for (const key of ['a', '\u001b[A', '\u001b[3~', '\u001bOP', '\r', '\u001b'])
    assert.ok(!isReport(key), JSON.stringify(key));
});
