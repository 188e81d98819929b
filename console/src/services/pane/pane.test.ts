import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { CaptureError, Channel } from './channel';
import { addError, NO_ERRORS } from './page-errors';
import { fileName, isFrameable, isPath, openable, typedPath } from './path';
import { pngSize, readMessage } from './read-message';
import { afterKey, between, isEnough, LEAST, middle, moved, opposite, resized, toPage } from './region';
import { loadPane, storePane } from './stored';
import { isWaking, viewOf } from './view';
import { fit } from './width';

function png(width: number, height: number): ArrayBuffer {
  const bytes = new ArrayBuffer(64);
  const view = new DataView(bytes);
  [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a].forEach((byte, i) => void view.setUint8(i, byte));
  view.setUint32(8, 13);
  view.setUint32(12, 0x49484452);
  view.setUint32(16, width);
  view.setUint32(20, height);
  return bytes;
}

const shot = (more: object = {}) => ({
  cabana: 1,
  type: 'captured',
  id: 'a',
  path: '/x',
  png: png(20, 10),
  width: 20,
  height: 10,
  dpr: 2,
  rect: { x: 0, y: 5, width: 10, height: 5 },
  viewport: { width: 100, height: 50 },
  ...more,
});

test('messages of a page are read field by field', () => {
  assert.deepEqual(
    readMessage({ cabana: 1, type: 'ready', path: '/a', title: 'T', extra: 1, back: true, forward: 'x' }),
    {
      type: 'ready',
      path: '/a',
      title: 'T',
      back: true,
      forward: undefined,
    },
  );
  assert.equal(readMessage({ cabana: 1, type: 'scroll', x: 0, y: Number.NaN }), null);
  const error = readMessage({ cabana: 1, type: 'error', kind: 'console', text: 'x'.repeat(5000), source: 5 });
  assert.deepEqual(error, { type: 'error', kind: 'console', text: 'x'.repeat(2000), source: undefined });
  assert.equal(readMessage({ cabana: 1, type: 'error', kind: 'other', text: '' }), null);
  assert.equal(readMessage({ cabana: 1, type: 'ready', path: 'javascript:1', title: '' }), null);
  assert.equal(readMessage({ type: 'ready', path: '/', title: '' }), null);
  for (const odd of [null, undefined, 1, 'ready', [], { cabana: 1 }, { cabana: 1, type: '__proto__' }]) {
    assert.equal(readMessage(odd), null);
  }
});

test('a picture is what its bytes say, and bounded', () => {
  const good = readMessage(shot({ width: 9999 }));
  assert.ok(good?.type === 'captured' && good.width === 20 && good.height === 10);
  for (const bad of [
    { png: new ArrayBuffer(0) },
    { png: new ArrayBuffer(64) },
    { png: png(40_000, 40_000) },
    { png: png(0, 1) },
    { png: 'text' },
    { dpr: 0 },
    { rect: { x: -1, y: 0, width: 1, height: 1 } },
    { rect: null },
    { viewport: { width: '1', height: 1 } },
    { path: 'x' },
    { id: 'x'.repeat(65) },
  ]) {
    assert.equal(readMessage(shot(bad)), null, JSON.stringify(bad));
  }
  assert.equal(pngSize(new ArrayBuffer(10)), null);
});

test('whatever a page says, the answer is null or bounded', () => {
  const odd = [
    ...[null, undefined, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, '', '/', 'x'.repeat(9999), true, [], {}],
    ...[png(1, 1), new ArrayBuffer(3), { x: 1, y: 1, width: 2, height: 2 }, { width: {} }, new Date(), /x/, 10n],
  ];
  const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T;
  const types = ['ready', 'location', 'scroll', 'error', 'captured', 'capture_failed', 'hello', 'constructor'];
  const names = 'path title back forward x y kind text source id png width height dpr rect viewport reason'.split(' ');
  for (let i = 0; i < 5000; i++) {
    const base: Record<string, unknown> = Math.random() < 0.5 ? shot() : { cabana: 1 };
    base.type = Math.random() < 0.9 ? pick(types) : pick(odd);
    for (const name of names) if (Math.random() < 0.3) base[name] = pick(odd);
    const message = readMessage(base);
    for (const value of Object.values(message ?? {})) {
      if (typeof value === 'string') assert.ok(value.length <= 2000);
      else if (typeof value === 'number') assert.ok(Number.isFinite(value));
      else assert.ok(value === undefined || typeof value === 'boolean' || typeof value === 'object');
    }
  }
});

function conversation() {
  const sent: { message: Record<string, unknown>; origin: string }[] = [];
  const page = {
    postMessage: (message: unknown, origin: string) => void sent.push({ message: message as never, origin }),
  };
  const news: unknown[] = [];
  const channel = new Channel({
    page: () => page,
    origin: 'http://p',
    onNews: (one) => news.push(one),
    now: () => 1000,
  });
  const says = (data: unknown, source: unknown = page, origin = 'http://p') =>
    channel.receive({ source: source as never, origin, data });
  return { channel, sent, news, says };
}

test('only messages of the frame and of its origin count', () => {
  const { news, says } = conversation();
  const ready = { cabana: 1, type: 'ready', path: '/', title: '' };
  says(ready, {});
  says(ready, null);
  says(ready, undefined, 'http://q');
  says({ ...ready, cabana: 2 });
  assert.equal(news.length, 0);
  says(ready);
  assert.equal(news.length, 1);
  for (let i = 0; i < 5000; i++) says({ cabana: 1, type: 'scroll', x: i, y: 0 });
  assert.equal(news.length, 200);
});

test('a capture ends by its answer, by silence or by time', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { channel, sent, says } = conversation();
    const idOf = () => sent.at(-1)?.message.id;
    const first = channel.capture({ x: 1, y: 2, width: 3, height: 4 });
    assert.equal(sent[0]?.origin, 'http://p');
    says(shot({ id: 'other' }));
    says(shot({ id: idOf() }));
    assert.equal((await first).width, 20);

    const silent = channel.capture();
    mock.timers.tick(2001);
    await assert.rejects(silent, (error) => error instanceof CaptureError && error.silent);

    const slow = channel.capture();
    says({ cabana: 1, type: 'location', path: '/', title: '' });
    mock.timers.tick(11_000);
    mock.timers.tick(2000);
    await assert.rejects(slow, (error) => error instanceof CaptureError && !error.silent);

    const failed = channel.capture();
    says({ cabana: 1, type: 'capture_failed', id: idOf(), reason: 'no' });
    await assert.rejects(failed, /^CaptureError: no$/);

    const replaced = channel.capture();
    const last = channel.capture();
    await assert.rejects(replaced, /another/);
    channel.close();
    await assert.rejects(last, /closed/);

    let silence = 0;
    channel.ask({ type: 'reload' }, () => silence++);
    says({ cabana: 1, type: 'ready', path: '/', title: '' });
    mock.timers.tick(3000);
    assert.equal(silence, 0);
    channel.ask({ type: 'reload' }, () => silence++);
    mock.timers.tick(3000);
    assert.equal(silence, 1);
  } finally {
    mock.timers.reset();
  }
});

test('the same error is counted, and the list is bounded', () => {
  let errors = addError(NO_ERRORS, { kind: 'console', text: 'a' }, 1);
  errors = addError(errors, { kind: 'console', text: 'b' }, 2);
  errors = addError(errors, { kind: 'console', text: 'a' }, 3);
  assert.deepEqual(
    errors.list.map(({ text, count, at }) => [text, count, at]),
    [
      ['a', 2, 3],
      ['b', 1, 2],
    ],
  );
  for (let i = 0; i < 300; i++) errors = addError(errors, { kind: 'request', text: String(i) }, i);
  assert.equal(errors.list.length, 100);
  assert.equal(errors.total, 303);
  assert.equal(new Set(errors.list.map(({ key }) => key)).size, 100);
});

test('typed paths stay on the service', () => {
  const origins = ['http://a.test', null];
  assert.equal(typedPath(' todos?x=1#y ', origins), '/todos?x=1#y');
  assert.equal(typedPath('', origins), '/');
  assert.equal(typedPath('http://a.test/b?c', origins), '/b?c');
  assert.equal(typedPath('http://b.test/b', origins), null);
  assert.equal(typedPath('http://a.test//b.test/', origins), null);
  assert.equal(typedPath('//b.test', origins), null);
  assert.equal(typedPath('\\\\b.test', origins), null);
  assert.equal(typedPath('https://', origins), null);
  assert.equal(typedPath('javascript:alert(1)', origins), '/javascript:alert(1)');
  assert.equal(isPath('/a\u0000'), false);
  assert.equal(openable(`/${'x'.repeat(3000)}`), '/');
  assert.equal(fileName('web', '/a/../b c?d=/etc'), 'web-a-b-c.png');
  assert.equal(fileName('../x', '/'), '-x.png');
});

test('only pages of other origins are framed', () => {
  assert.ok(isFrameable('http://p.localhost:3000/.cabana/enter?t', 'http://p.localhost:3000', 'http://localhost:3000'));
  assert.ok(!isFrameable('http://localhost:3000/console/', 'http://localhost:3000', 'http://localhost:3000'));
  assert.ok(!isFrameable('http://a/', 'http://b', 'http://c'));
  assert.ok(!isFrameable('javascript:1', 'null', 'http://c'));
  assert.ok(!isFrameable('data:text/html,x', 'null', 'http://c'));
  assert.ok(!isFrameable('nothing', 'nothing', 'http://c'));
});

test('regions stay within the picture', () => {
  const bounds = { width: 400, height: 300 };
  assert.deepEqual(between({ x: 50, y: 200 }, { x: -20, y: 999 }, bounds), { x: 0, y: 200, width: 50, height: 100 });
  assert.ok(!isEnough(between({ x: 5, y: 5 }, { x: 9, y: 90 }, bounds)));
  assert.deepEqual(middle(bounds), { x: 100, y: 75, width: 200, height: 150 });
  const rect = middle(bounds);
  assert.deepEqual(moved(rect, { x: 999, y: -999 }, bounds), { ...rect, x: 200, y: 0 });
  assert.deepEqual(resized(rect, { x: 999, y: -999 }, bounds), { ...rect, width: 300, height: LEAST });
  const key = (name: string, shiftKey = false, altKey = false) => ({ key: name, shiftKey, altKey });
  assert.deepEqual(afterKey(null, key('ArrowUp'), bounds), rect);
  assert.deepEqual(afterKey(rect, key('ArrowUp'), bounds), { ...rect, y: 65 });
  assert.deepEqual(afterKey(rect, key('ArrowRight', true, true), bounds), { ...rect, width: 201 });
  assert.equal(afterKey(rect, key('a'), bounds), null);
  assert.deepEqual(opposite(rect, 'nw'), { x: 300, y: 225 });
  assert.deepEqual(opposite(rect, 'se'), { x: 100, y: 75 });
  assert.deepEqual(toPage(rect, 0.5), { x: 200, y: 150, width: 400, height: 300 });
});

test('a frame that does not fit is shown smaller', () => {
  const stage = { width: 410, height: 500 };
  assert.deepEqual(fit('full', stage), { ...stage, scale: 1 });
  assert.deepEqual(fit('phone', stage), { width: 390, height: 500, scale: 1 });
  assert.deepEqual(fit('tablet', stage), { width: 820, height: 1000, scale: 0.5 });
  assert.deepEqual(fit('phone', { width: 0, height: 0 }), { width: 0, height: 0, scale: 1 });
});

test('what a pane showed is kept, bounded and checked', () => {
  const map = new Map<string, string>();
  const storage = {
    getItem: (key: string) => map.get(key) ?? null,
    setItem: (k: string, v: string) => void map.set(k, v),
  };
  assert.deepEqual(loadPane('svc_1', storage), { path: '/', width: 'full', open: false });
  storePane('svc_1', { path: '/a?b', open: true }, storage);
  storePane('svc_1', { width: 'phone' }, storage);
  assert.deepEqual(loadPane('svc_1', storage), { path: '/a?b', width: 'phone', open: true });
  storePane('svc_1', { path: '//evil' }, storage);
  assert.equal(loadPane('svc_1', storage).path, '/');
  for (let i = 0; i < 100; i++) storePane(`svc_x${i}`, { path: `/${'y'.repeat(2000)}` }, storage);
  assert.equal(JSON.parse(map.get('cabana.panes') ?? '').length, 30);
  assert.equal(loadPane('svc_1', storage).path, '/');
  for (const odd of ['{', '{}', '[1,[2],["svc_1"],["svc_1",{"path":"x","width":"full"}]]', 'null']) {
    map.set('cabana.panes', odd);
    assert.equal(loadPane('svc_1', storage).path, '/');
    storePane('svc_1', { path: '/z' }, storage);
  }
});

test('a pane shows the frame only while the service runs or is woken', () => {
  assert.equal(viewOf('running', false), 'frame');
  assert.equal(viewOf('suspended', false), 'suspended');
  assert.equal(viewOf('suspended', true), 'frame');
  assert.equal(viewOf('starting', true), 'frame');
  assert.equal(viewOf('starting', false), 'starting');
  assert.equal(viewOf('error', true), 'down');
  assert.equal(viewOf('stopped', false), 'down');
  assert.ok(isWaking('suspended') && !isWaking('running') && !isWaking('error'));
});
