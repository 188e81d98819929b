import { useQuery } from '@tanstack/react-query';
import { Suspense, useMemo } from 'react';
import { type SandboxFull, sandboxEventsQuery } from '../../../api';
import { cli, curl } from '../../../format/snippet';
import { lazyPart } from '../../../lazy-part';
import { Button, FilterBar, Segmented, SkeletonRows, SnippetMenu, Updated, useFilters } from '../../../ui';
import styles from '../sandbox.module.css';
import { strings } from '../strings';
import type { TabProps } from '../tab';
import { TabQuery } from '../tab-query';
import { isStep } from '../words/event';
import type { Mark } from './series';
import { MetricsTable } from './table';
import { useMetrics } from './use-metrics';

const Charts = lazyPart(() => import('./charts'));

const RANGES = [
  { id: '15m', label: '15 m', minutes: 15 },
  { id: '1h', label: '1 h', minutes: 60 },
  { id: '6h', label: '6 h', minutes: 360 },
  { id: '24h', label: '24 h', minutes: 1440 },
  { id: '7d', label: '7 d', minutes: 7 * 1440 },
  { id: '30d', label: '30 d', minutes: 30 * 1440 },
] as const;
const VIEWS = [
  { id: 'charts', label: strings.metrics.charts },
  { id: 'table', label: strings.metrics.table },
] as const;

export default function Metrics({ sandbox }: TabProps) {
  const words = strings.metrics;
  const id = sandbox.sandboxID;
  const filters = useFilters(['range', 'view']);
  const range = RANGES.find((one) => one.id === filters.get('range')) ?? RANGES[1];
  const view = filters.get('view') === 'table' ? 'table' : 'charts';
  const runs = (sandbox.phase || sandbox.state) === 'running';
  const query = useMetrics(id, range.minutes, runs);
  const marks = useMarks(sandbox, query.data?.from ?? 0);
  return (
    <div className={styles.panel}>
      <FilterBar end={query.data && <Updated at={query.dataUpdatedAt} />}>
        <Segmented
          label={words.range}
          value={range.id}
          onChange={(value) => filters.set('range', value)}
          options={RANGES}
        />
        <Segmented
          label={words.view}
          value={view}
          onChange={(value) => filters.set('view', value === 'charts' ? '' : value)}
          options={VIEWS}
        />
        <SnippetMenu
          api={curl('GET', `/sandboxes/${id}/metrics?start=${query.data?.from ?? 0}`)}
          cli={cli('exec', id, '--', 'top', '-bn1')}
        />
      </FilterBar>
      <TabQuery id={id} query={query} skeleton={<SkeletonRows rows={5} />}>
        {({ items, from, to }) =>
          items.length === 0 ? (
            <section className="card">
              <div className="empty">
                <h2>{words.empty}</h2>
                <p>{words.emptyText}</p>
                {range.minutes < 1440 && <Button onPress={() => filters.set('range', '24h')}>{words.wider}</Button>}
              </div>
            </section>
          ) : view === 'table' ? (
            <MetricsTable items={items} marks={marks} minutes={range.minutes} />
          ) : (
            <Suspense fallback={<SkeletonRows rows={5} />}>
              <Charts items={items} marks={marks} from={from} to={to} />
            </Suspense>
          )
        }
      </TabQuery>
    </div>
  );
}

/** Events of the range, without the steps between. */
function useMarks(sandbox: SandboxFull, from: number): Mark[] {
  const { data } = useQuery(sandboxEventsQuery(sandbox.sandboxID, { limit: 100 }));
  return useMemo(
    () =>
      (data ?? [])
        .filter((event) => !isStep(event.type))
        .map((event) => ({ at: Date.parse(event.timestamp) / 1000, event }))
        .filter((mark) => mark.at >= from),
    [data, from],
  );
}
