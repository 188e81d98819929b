import assert from 'node:assert/strict';
import { test } from 'node:test';
import { browserOf } from './browser';

test('browsers are recognised by what they say', () => {
  const chrome =
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';
  assert.equal(browserOf(chrome), 'Chrome 140 on Linux');
  assert.equal(browserOf(`${chrome} Edg/140.0.0.0`), 'Edge 140 on Linux');
  assert.equal(
    browserOf('Mozilla/5.0 (Windows NT 10.0; rv:131.0) Gecko/20100101 Firefox/131.0'),
    'Firefox 131 on Windows',
  );
  const phone = 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) ';
  assert.equal(browserOf(`${phone}Version/18.0 Mobile/15E148 Safari/604.1`), 'Safari 18 on iOS');
  assert.equal(browserOf('curl/8.5.0'), null);
  assert.equal(browserOf('x'.repeat(100_000)), null);
});
