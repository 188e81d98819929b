import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { UsageEntry } from '../../api';
import { figure, kinds, lines, money, stack } from './sums.ts';

const DAY = 86_400;
const entry = (more: Partial<UsageEntry>): UsageEntry => ({
  period: '2026-11-02T00:00:00Z',
  kind: 'vcpu',
  amount: '7200.000000',
  unit: 'vCPU-seconds',
  costMicros: 0,
  ...more,
});
const from = Date.parse('2026-11-01T00:00:00Z') / 1000;

test('every period has its place', () => {
  const { at, series } = stack([entry({})], 'vcpu', 'kind', from, from + 3 * DAY, DAY);
  assert.deepEqual(at, [from, from + DAY, from + 2 * DAY]);
  assert.deepEqual(series, [{ key: 'vcpu', values: [0, 2, 0], total: 2 }]);
});

test('what has no colour is added up', () => {
  const rows = Array.from({ length: 9 }, (_, i) => entry({ subjectId: `i${i}`, amount: String(3600 * (i + 1)) }));
  const { series } = stack(rows, 'vcpu', 'sandbox', from, from + 3 * DAY, DAY);
  assert.equal(series.length, 6);
  assert.deepEqual([series[0]?.key, series[5]?.key, series[5]?.total], ['i8', null, 1 + 2 + 3 + 4]);
});

test('lines are sorted by cost, then by use', () => {
  const rows = [
    entry({ model: '' }),
    entry({ model: 'demo/demo', kind: 'input_tokens', unit: 'tokens', amount: '40' }),
    entry({ model: 'demo/demo', kind: 'model_calls', unit: 'calls', amount: '1', costMicros: 5 }),
  ];
  const made = lines(rows, 'model');
  assert.deepEqual(
    made.map((line) => [line.key, line.vcpu, line.tokens, line.cost]),
    [
      ['demo/demo', 0, 40, 5],
      ['', 2, 0, 0],
    ],
  );
  assert.deepEqual(kinds(rows, ['model_calls', 'vcpu']), [
    { kind: 'model_calls', amount: 1, cost: 5 },
    { kind: 'vcpu', amount: 2, cost: 0 },
  ]);
});

test('numbers are short, money is exact', () => {
  assert.deepEqual([0, 0.0001, 0.03123, 4.1999, 2803.4].map(figure), ['0', '< 0.001', '0.0312', '4.2', '2\u202f803']);
  assert.deepEqual(
    [12_400_000, -1_840_000, 5].map((micros) => money(micros, 'EUR')),
    ['12.40 EUR', '\u22121.84 EUR', '0.000005 EUR'],
  );
});
