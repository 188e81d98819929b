import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pages, setTeam, teamHeaders, url } from './client';
import { ApiError, errorOf, isApiError, retryAfter } from './error';
import { metadataQuery } from './sandboxes';

const headers = (values: Record<string, string>) => ({ get: (name: string) => values[name] ?? null });

test('errors of the server', () => {
  const text = '{"code":404,"message":"sandbox x does not exist","error_code":"sandbox_not_found"}';
  const error = errorOf(404, headers({ 'x-request-id': 'req_1', 'retry-after': '3' }), text);
  assert.ok(isApiError(error, 'sandbox_not_found'));
  assert.deepEqual(
    [error.code, error.message, error.requestId, error.retryAfter],
    [404, 'sandbox x does not exist', 'req_1', 3],
  );
});

test('errors of something else', () => {
  const error = errorOf(502, headers({}), '<html>bad gateway</html>');
  assert.ok(error instanceof ApiError);
  assert.equal(error.error_code, 'http_502');
  assert.equal(error.requestId, null);
  assert.equal(errorOf(500, headers({}), 'null').error_code, 'http_500');
});

test('when to try again', () => {
  assert.equal(retryAfter('7'), 7);
  assert.equal(retryAfter(null), null);
  assert.equal(retryAfter('nonsense'), null);
  assert.equal(retryAfter('Thu, 01 Jan 1970 00:00:09 GMT', 5000), 4);
});

test('addresses', () => {
  assert.equal(url('/a', { q: 'x y', none: undefined, empty: '', zero: 0, no: false }), '/a?q=x+y&zero=0&no=false');
  assert.equal(url('/a'), '/a');
  assert.equal(metadataQuery({ 'a b': 'c&d' }), 'a%20b=c%26d');
  assert.equal(metadataQuery({}), undefined);
});

test('changes name their team', () => {
  setTeam('t1');
  assert.deepEqual(teamHeaders('POST'), { 'X-Cabana-Team': 't1' });
  assert.deepEqual(teamHeaders('GET'), {});
  setTeam(null);
});

test('all pages, up to a number of rows', async () => {
  const asked: (string | undefined)[] = [];
  const get = async (next: string | undefined) => {
    asked.push(next);
    return { items: [1, 2], next: asked.length < 5 ? String(asked.length) : null };
  };
  assert.deepEqual((await pages(get, 100)).items.length, 10);
  assert.deepEqual(asked, [undefined, '1', '2', '3', '4']);
  asked.length = 0;
  assert.deepEqual(await pages(get, 3), { items: [1, 2, 1, 2], next: '2' });
});
