import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Template } from '../../wire';
import { fieldOf, problemsOf } from './checks';
import { EMPTY, fromQuery, fromStored, pair, requestOf, toStored } from './draft';
import { looksLikeEnv, parseEnv } from './env-file';
import { imageProblem, templateNameOf } from './image-name';
import { cliOf, curlOf, time } from './snippets';
import { cpuStops, diskStops, memoryStops, nearest } from './stops';

const base = { cpuCount: 2, memoryMB: 1024, diskSizeMB: 10_240 } as Template;

test('the request has what differs from the template', () => {
  assert.deepEqual(requestOf({ ...EMPTY, cpu: 2, memory: 2048 }, 'base', base), {
    templateID: 'base',
    timeout: 3600,
    memoryMB: 2048,
    autoPause: true,
  });
  const draft = {
    ...EMPTY,
    onTimeout: 'kill' as const,
    name: ' web ',
    labels: [pair('env', 'x'), pair('', '')],
    env: [pair('A', 'b c')],
    network: 'none' as const,
    allow: 'a.example.com\n10.0.0.0/8',
    idle: 15,
    autoResume: true,
  };
  assert.deepEqual(requestOf(draft, 't'), {
    templateID: 't',
    timeout: 3600,
    autoResume: { enabled: true },
    idleTimeout: 900,
    metadata: { name: 'web', env: 'x' },
    envVars: { A: 'b c' },
    network: { preset: 'none', allowOut: ['a.example.com', '10.0.0.0/8'] },
  });
  assert.equal(requestOf({ ...draft, network: 'internet' }, 't').network?.allowOut, undefined);
});

test('secrets are not stored', () => {
  const text = toStored({ ...EMPTY, env: [pair('TOKEN', 'hunter2')], user: 'me' });
  assert.ok(!text.includes('hunter2'));
  const back = fromStored(text);
  assert.deepEqual([back.env[0]?.name, back.env[0]?.value, back.user], ['TOKEN', '', 'me']);
  assert.deepEqual(fromStored('nonsense'), EMPTY);
  assert.deepEqual(fromStored('{"cpu":"x","env":7,"timeout":null,"name":3}'), { ...EMPTY, timeout: null });
});

test('a link fills the form', () => {
  const draft = fromQuery(new URLSearchParams('template=web&cpu=4&memory=x&label=name%3Da&label=env%3Db%3Dc'));
  assert.equal(draft?.template, 'web');
  assert.deepEqual([draft?.cpu, draft?.memory, draft?.name], [4, null, 'a']);
  assert.deepEqual([draft?.labels[0]?.name, draft?.labels[0]?.value], ['env', 'b=c']);
  assert.equal(fromQuery(new URLSearchParams('step=image')), null);
});

test('what is wrong, and where', () => {
  assert.deepEqual(Object.keys(problemsOf(EMPTY)), ['template']);
  const ok = { ...EMPTY, template: 'base' };
  assert.deepEqual(problemsOf(ok, { hours: 1 }), {});
  assert.ok(problemsOf({ ...ok, timeout: 2 }, { hours: 1 }).timeout);
  assert.ok(problemsOf({ ...ok, env: [pair('A', '1'), pair('A', '2')] }).env);
  assert.ok(problemsOf({ ...ok, name: 'x', labels: [pair('name', 'y')] }).labels);
  assert.ok(problemsOf({ ...ok, autoResume: true, keepMemory: false }).autoResume);
  const said = (message: string, error_code = 'invalid_request') => fieldOf({ message, error_code }, 'template');
  assert.equal(said('memoryMB must be between 128 and 2048, not 4096'), 'memory');
  assert.equal(said('Timeout cannot be greater than 24 hours'), 'timeout');
  assert.equal(said('envVars has 300 entries; at most 256 are taken'), 'env');
  assert.equal(said('network.allowOut: "x" is nothing'), 'network');
  assert.equal(said('there is no template x', 'template_not_found'), 'template');
  assert.equal(said('the server is full', 'limit_reached'), null);
});

test('names of images', () => {
  assert.equal(templateNameOf('python:3.12-slim'), 'python:3.12-slim');
  assert.equal(templateNameOf('ghcr.io/acme/web.app:V2'), 'web-app:v2');
  assert.equal(templateNameOf('localhost:5000/a/b'), 'b');
  assert.equal(templateNameOf(`busybox@sha256:${'0'.repeat(64)}`), 'busybox');
  assert.equal(templateNameOf('web:latest'), 'web');
  assert.equal(imageProblem('localhost:5000/a/b'), null);
  assert.equal(imageProblem('ghcr.io/acme/web:v2'), null);
  for (const wrong of ['', 'https://x/y', 'a b', 'ghcr.io/Acme/web', '-x']) assert.ok(imageProblem(wrong), wrong);
});

test('an .env file', () => {
  const text = `# all
export A=1
B="two\\nlines # no comment"
C='it is $literal' # comment
D=plain # comment
E="over
two lines"
not a line
A=3
F=
`;
  assert.deepEqual(parseEnv(text), {
    entries: [
      ['A', '3'],
      ['B', 'two\nlines # no comment'],
      ['C', 'it is $literal'],
      ['D', 'plain'],
      ['E', 'over\ntwo lines'],
      ['F', ''],
    ],
    wrong: [8],
  });
  assert.deepEqual(parseEnv('A="never closed\nB=2').entries, [['B', '2']]);
  assert.equal(looksLikeEnv('PATH'), false);
  assert.equal(looksLikeEnv('A=1\nB=2'), true);
});

test('sliders stop at sizes that people use', () => {
  assert.deepEqual(cpuStops(2, null), [1, 2]);
  assert.deepEqual(memoryStops(3000, 700), [128, 256, 512, 700, 1024, 1536, 2048, 3000]);
  assert.deepEqual(diskStops(10_240, null), [512, 1024, 2048, 5120, 10_240]);
  assert.equal(nearest([1, 4, 8], 5), 1);
});

test('the same as a command', () => {
  assert.equal(cliOf({ templateID: 'base' }), 'cabana create');
  const body = {
    templateID: 'web',
    cpuCount: 2,
    memoryMB: 2048,
    diskSizeMB: 1500,
    envVars: { A: "it's" },
    metadata: { name: 'x' },
    network: { preset: 'none', allowOut: ['*.example.com'] },
    timeout: 5400,
    autoPause: true,
    autoPauseMemory: false,
    idleTimeout: 45,
  };
  assert.equal(
    cliOf(body, {}, ['a b.txt']).replaceAll(' \\\n  ', ' '),
    "cabana create --template web --cpu 2 --memory 2G --disk 1500 --env 'A=it'\\''s' --metadata name=x " +
      "--network none --allow-out '*.example.com' --timeout 90m --auto-pause disk --idle 45 --upload 'a b.txt'",
  );
  assert.match(cliOf({ templateID: 'web' }, { image: 'acme/web' }), /^cabana template pull acme\/web &&\n/);
  assert.match(cliOf({ templateID: 'web' }, { image: 'acme/web', user: 'me' }), /^CABANA_REGISTRY_PASSWORD="\$REG/);
  assert.equal(time(86_400), '1d');
});

test('the same as API calls', () => {
  const one = curlOf({ templateID: 'web' }, {}, [], 'http://h');
  assert.ok(one.endsWith(`-d '{"templateID":"web"}'`));
  const files = curlOf({ templateID: 'web' }, {}, ['a;b.txt'], 'http://h');
  assert.ok(files.includes(`--form-string 'sandbox={"templateID":"web"}'`));
  assert.ok(files.includes(`-F 'file=@"a;b.txt"'`));
  const image = curlOf({ templateID: 'web' }, { image: 'acme/web', user: 'me' }, [], 'http://h');
  assert.ok(image.includes('"username":"me","password":$password}}'));
  assert.ok(image.includes('http://h/v3/templates'));
});
