// All sandboxes: what runs, what sleeps, what broke and why.
import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useMemo, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { type SandboxRow, url } from '../../api';
import { metadataQuery } from '../../api/sandboxes';
import { isAsleep, statusOf } from '../../format/sandbox';
import { cli, curl } from '../../format/snippet';
import { useLive } from '../../live';
import {
  ButtonLink,
  EmptyState,
  ErrorBanner,
  KeyHint,
  NoMatch,
  Page,
  SkeletonRows,
  useFilters,
  VirtualTable,
} from '../../ui';
import type { Act } from './acts';
import { Bulk, BulkProgress, Summary } from './bulk';
import { Lines, linesHeight } from './cells';
import { COLUMNS, small } from './columns';
import { Ask, needsQuestion, type Question } from './dialogs';
import { countRows, FILTER_NAMES, filterOf, narrow } from './filter';
import { SandboxFilters } from './filters-bar';
import { Head } from './head';
import { LoadMore } from './load-more';
import { BusyRows, OpenRow, RowActsProvider } from './row-context';
import { RowMenu } from './row-menu';
import styles from './sandboxes.module.css';
import { strings } from './strings';
import { useActs } from './use-acts';
import { useSandboxPages } from './use-pages';
import { nameOf } from './words';

const rowKey = (row: SandboxRow) => row.sandboxID;
const isDim = (row: SandboxRow) => isAsleep(statusOf(row, 0).state);
const NO_ROWS: SandboxRow[] = [];

export default function Sandboxes() {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const filters = useFilters(FILTER_NAMES);
  const state = filters.get('state');
  const given = { state, template: filters.get('template'), labels: filters.getAll('label'), q: filters.get('q') };
  const filter = filterOf(given);
  const { query, isLive, loadMore, isLoadingMore, moreError } = useSandboxPages(filter);
  const all = query.data?.items;
  const rows = useMemo(() => narrow(all ?? NO_ROWS, state), [all, state]);
  const isMore = Boolean(query.data?.next) && !query.isPlaceholderData;
  const counts = useMemo(() => (all ? countRows(rows) : null), [all, rows]);

  // An ended sandbox leaves the other lists by itself; here it must be fetched.
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useLive(state === 'ended' ? 'sandboxes' : null, (message) => {
    if (message.type !== 'event' || message.sandbox !== null) return;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => void client.invalidateQueries({ queryKey: ['sandboxes', filter] }), 300);
  });

  const acts = useActs();
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set());
  // Rows that are gone are not selected any more.
  const chosen = useMemo(
    () => (ticked.size > 0 ? rows.filter((row) => ticked.has(row.sandboxID)) : NO_ROWS),
    [rows, ticked],
  );
  const selected = useMemo(() => new Set(chosen.map(rowKey)), [chosen]);

  const [question, setQuestion] = useState<Question | null>(null);
  const [menu, setMenu] = useState<{ row: SandboxRow; anchor: HTMLElement } | null>(null);
  const [openKey, setOpenKey] = useState<string | null>(null);
  const { run } = acts;
  const runOne = useCallback(
    (act: Act, row: SandboxRow) => (needsQuestion(act, [row]) ? setQuestion({ act, rows: [row] }) : run(act, row)),
    [run],
  );
  const rowActs = useMemo(
    () => ({
      run: runOne,
      openMenu: (row: SandboxRow, anchor: HTMLElement) => setMenu({ row, anchor }),
      toggleLines: (row: SandboxRow) => setOpenKey((old) => (old === row.sandboxID ? null : row.sandboxID)),
    }),
    [runOne],
  );
  function runMany(act: Act, able: SandboxRow[]): void {
    if (needsQuestion(act, able)) setQuestion({ act, rows: able });
    else void acts.runMany(act, able);
  }
  function answer({ act, rows: asked }: Question): unknown {
    const [first] = asked;
    if (asked.length === 1 && first) return acts.one(act, first);
    void acts.runMany(act, asked);
  }

  const openRow = openKey ? rows.find((row) => row.sandboxID === openKey) : undefined;
  const detail = openRow?.lastLines?.length
    ? { key: openRow.sandboxID, height: linesHeight(openRow), node: <Lines row={openRow} /> }
    : null;

  const asked = {
    state: filter.state?.join(','),
    template: filter.template,
    metadata: metadataQuery(filter.metadata),
    q: filter.q,
  };
  const command = cli(
    'ls',
    ...(filter.state && state !== 'ended' ? ['--state', filter.state[0]] : []),
    ...(filter.template ? ['--template', filter.template] : []),
    ...Object.entries(filter.metadata ?? {}).flatMap(([name, value]) => ['--metadata', `${name}=${value}`]),
  );
  const isEmpty = all?.length === 0 && filters.active === 0 && !isMore;

  return (
    <Page title={strings.title}>
      <Head
        counts={counts}
        isMore={isMore}
        updatedAt={query.dataUpdatedAt}
        isLive={isLive}
        api={curl('GET', url('/v2/sandboxes', asked))}
        cli={command}
      />
      {query.error && (
        <ErrorBanner
          error={query.error}
          lead={all ? strings.old : undefined}
          onRetry={query.isFetching ? undefined : () => void query.refetch()}
        />
      )}
      {isEmpty ? (
        <EmptyState
          title={strings.emptyTitle}
          action={<ButtonLink href="/create">{strings.emptyAction}</ButtonLink>}
          command="cabana create"
        >
          {strings.emptyText}
        </EmptyState>
      ) : (
        <SandboxFilters
          filters={filters}
          rows={rows}
          end={all ? strings.shown(rows.length, isMore, filters.active > 0) : ''}
        />
      )}
      {!all && !query.error && <SkeletonRows rows={10} />}
      {all && !isEmpty && (
        <RowActsProvider value={rowActs}>
          <BusyRows.Provider value={acts.busy}>
            <OpenRow.Provider value={detail ? openKey : null}>
              <VirtualTable
                label={strings.title}
                rows={rows}
                columns={COLUMNS}
                rowKey={rowKey}
                rowLabel={nameOf}
                onOpen={(row) => navigate(`/sandboxes/${row.sandboxID}`)}
                selected={selected}
                onSelect={state === 'ended' ? undefined : setTicked}
                dim={isDim}
                small={small}
                detail={detail}
                empty={isMore ? null : <NoMatch onClear={filters.clear}>{strings.noMatch}</NoMatch>}
              />
            </OpenRow.Provider>
          </BusyRows.Provider>
        </RowActsProvider>
      )}
      {isMore && (
        <LoadMore isLoading={isLoadingMore} error={moreError} count={all?.length ?? 0} onMore={() => void loadMore()} />
      )}
      {rows.length > 0 && !isMore && (
        <div className={`row meta only-wide ${styles.foot}`}>
          <span className="grow num">{strings.end(rows.length)}</span>
          <KeyHint keys="j k" /> {strings.keys.move}
          <KeyHint keys="x" /> {strings.keys.select}
          <KeyHint keys="?" /> {strings.keys.all}
        </div>
      )}
      {acts.bulk ? (
        <BulkProgress run={acts.bulk} onStop={acts.stop} />
      ) : (
        <Bulk chosen={chosen} onAct={runMany} onClear={() => setTicked(new Set())} />
      )}
      <RowMenu open={menu} onClose={() => setMenu(null)} onAct={runOne} onLines={rowActs.toggleLines} />
      <Ask question={question} onClose={() => setQuestion(null)} onYes={answer} />
      <Summary
        summary={acts.summary}
        onClose={acts.closeSummary}
        onRetry={(act, again) => void acts.runMany(act, again)}
      />
    </Page>
  );
}
