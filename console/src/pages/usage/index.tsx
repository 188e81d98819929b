// What the team used over time, by what, and what it costs.
import { useQuery } from '@tanstack/react-query';
import { Download } from 'lucide-react';
import { Suspense, useMemo } from 'react';
import { type UsageAsked, type UsageReport, usageCsv, usageQuery } from '../../api';
import { plainName } from '../../format/plain';
import { cli, curl } from '../../format/snippet';
import { lazyPart } from '../../lazy-part';
import {
  ButtonLink,
  Card,
  EmptyState,
  ExternalLink,
  FilterBar,
  Page,
  PageHead,
  QueryView,
  Segmented,
  Select,
  SkeletonRows,
  SnippetMenu,
  Time,
  useFilters,
} from '../../ui';
import { strings } from './strings';
import { figure, type GroupBy, type Measure, money, stack } from './sums';
import { GroupTable, KindTable } from './tables';
import styles from './usage.module.css';
import { Wallet } from './wallet';

const Chart = lazyPart(() => import('./chart'));

const HOUR = 3600;
const DAY = 24 * HOUR;
const RANGES = [
  { id: '24h', label: '24 h', seconds: DAY, step: HOUR },
  { id: '7d', label: '7 d', seconds: 7 * DAY, step: DAY },
  { id: '30d', label: '30 d', seconds: 30 * DAY, step: DAY },
  { id: '90d', label: '90 d', seconds: 90 * DAY, step: DAY },
  { id: '1y', label: '1 y', seconds: 365 * DAY, step: DAY },
] as const;
const MEASURES: readonly Measure[] = ['vcpu', 'memory_mib', 'paused_memory_mib', 'disk_mib', 'cold_mib', 'tokens'];
const GROUPS: readonly GroupBy[] = ['kind', 'project', 'sandbox', 'model'];
/** Longer times are not added up by sandbox. */
const LONGEST_BY_SANDBOX = 31 * DAY;

type Range = (typeof RANGES)[number];

/** Whole hours or days until now: the address of the query changes once an hour. */
function asked(range: Range, by: GroupBy): UsageAsked {
  const end = (Math.floor(Date.now() / 1000 / HOUR) + 1) * HOUR;
  const begin = Math.floor((end - range.seconds) / range.step) * range.step;
  const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
  const period = range.step === HOUR ? 'hour' : 'day';
  return { from: iso(begin), to: iso(end), group: by === 'kind' ? `${period},kind` : `${period},kind,${by}` };
}

export default function Usage() {
  const filters = useFilters(['range', 'show', 'by']);
  const range = RANGES.find((one) => one.id === filters.get('range')) ?? RANGES[2];
  const groups = GROUPS.filter((one) => one !== 'sandbox' || range.seconds <= LONGEST_BY_SANDBOX);
  const by = groups.find((one) => one === filters.get('by')) ?? 'kind';
  const what = asked(range, by);
  const query = useQuery(usageQuery(what));
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            <ExternalLink href={usageCsv(what)} className="btn">
              <Download />
              {strings.csv}
            </ExternalLink>
            <SnippetMenu
              api={curl('GET', `/usage?from=${what.from}&to=${what.to}&group=${what.group}`)}
              cli={cli('usage', '--from', what.from, '--to', what.to, '--group', what.group)}
            />
          </>
        }
      />
      <FilterBar>
        <Segmented
          label={strings.range}
          value={range.id}
          onChange={(value) => filters.set('range', value)}
          options={RANGES}
        />
        <Segmented
          label={strings.group}
          value={by}
          onChange={(value) => filters.set('by', value === 'kind' ? '' : value)}
          options={groups.map((id) => ({ id, label: strings.groups[id] }))}
        />
      </FilterBar>
      <QueryView query={query} skeleton={<SkeletonRows rows={6} />}>
        {(report) =>
          report.rows.length === 0 ? (
            <EmptyState
              title={strings.none}
              action={<ButtonLink href="/create">{strings.create}</ButtonLink>}
              command={cli('create')}
            >
              {strings.noneText}
            </EmptyState>
          ) : (
            <Report
              report={report}
              range={range}
              by={by}
              show={filters.get('show')}
              onShow={(id) => filters.set('show', id)}
            />
          )
        }
      </QueryView>
    </Page>
  );
}

interface ReportProps {
  report: UsageReport;
  range: Range;
  by: GroupBy;
  show: string;
  onShow: (measure: string) => void;
}

function Report({ report, range, by, show, onShow }: ReportProps) {
  const { rows, currency } = report;
  const costs = report.billing !== 'off' || rows.some((row) => row.costMicros !== 0);
  const measures: readonly Measure[] = costs ? ['cost', ...MEASURES] : MEASURES;
  const measure = measures.find((one) => one === show) ?? measures[0] ?? 'vcpu';
  const piles = useMemo(
    () => stack(rows, measure, by, Date.parse(report.from) / 1000, Date.parse(report.to) / 1000, range.step),
    [rows, measure, by, report.from, report.to, range.step],
  );
  const total = piles.series.reduce((sum, one) => sum + one.total, 0);
  const unit = strings.measureUnits(measure, currency);
  const sum = measure === 'cost' ? money(Math.round(total * 1e6), currency) : `${figure(total)} ${unit}`;
  return (
    <div className={styles.lists}>
      <Card>
        <div className={styles.head}>
          <Select
            label={strings.measure}
            value={measure}
            onChange={onShow}
            options={measures.map((id) => ({ id, label: strings.measures[id] }))}
          />
          <span className={`${styles.sum} num`}>{sum}</span>
          <span className="grow" />
          <ul className={styles.legend}>
            {piles.series.map((one, place) => (
              <li key={one.key ?? ' '}>
                <i className={styles.swatch} style={{ background: `var(--chart-${place + 1})` }} aria-hidden="true" />
                <span className="cut">{nameOf(one.key, by)}</span>
              </li>
            ))}
          </ul>
        </div>
        <Suspense fallback={<div className={styles.plot} />}>
          <Chart
            stack={piles}
            step={range.step}
            label={strings.caption(strings.measures[measure], sum, piles.at.length)}
          />
        </Suspense>
      </Card>
      {by === 'kind' ? (
        <KindTable rows={rows} currency={costs ? currency : null} />
      ) : (
        <GroupTable rows={rows} by={by} currency={costs ? currency : null} />
      )}
      <p className="meta">
        {report.truncated && <b>{strings.truncated} </b>}
        {strings.until} <Time at={report.ratedUntil} />. {strings.utc}
      </p>
      {report.billing !== 'off' && <Wallet />}
    </div>
  );
}

function nameOf(key: string | null, by: GroupBy): string {
  if (key === null) return strings.others;
  if (by === 'kind') return strings.kinds[key as keyof typeof strings.kinds] ?? key;
  return by === 'model' && key === '' ? strings.noModel : plainName(key, 60);
}
