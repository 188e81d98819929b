// Who did what: a page at a time, newest first. Every word of an entry may come from a stranger and is shown as text.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { ChevronDown, ChevronRight, Download, RotateCw } from 'lucide-react';
import { Fragment, useState } from 'react';
import { type AuditEntry, auditExport, listAudit, sessionQuery } from '../../api';
import { plain, plainName } from '../../format/plain';
import { cli, curl } from '../../format/snippet';
import {
  Button,
  CodeBlock,
  EmptyState,
  ErrorBanner,
  FilterBar,
  FilterChip,
  FilterMenu,
  FilterSearch,
  type Filters,
  IconButton,
  Menu,
  NoMatch,
  Page,
  PageHead,
  SkeletonRows,
  SnippetMenu,
  Table,
  Time,
  useFilters,
} from '../../ui';
import styles from './audit.module.css';
import { FILTER_NAMES, filterOf, SINCE } from './filter';
import { strings } from './strings';

const PAGE = 50;

interface RowProps {
  entry: AuditEntry;
  name: string | undefined;
  isOpen: boolean;
  onToggle: () => void;
  filters: Filters;
}

const keyOf = (entry: AuditEntry) => `${entry.teamID ?? ''}/${entry.seq}`;

function actorOf(entry: AuditEntry, name: string | undefined): string {
  if (entry.actor === 'server') return strings.server;
  return entry.actor ? plainName(name || entry.actor, 60) : strings.nobody;
}

function Row({ entry, name, isOpen, onToggle, filters }: RowProps) {
  const action = plainName(entry.action, 60);
  const only = (which: 'actor' | 'action' | 'target', label: string) => {
    const value = entry[which];
    return (
      value && (
        <Button size="sm" onPress={() => filters.set(which, value)}>
          {label}
        </Button>
      )
    );
  };
  return (
    <Fragment>
      <tr>
        <td>
          <button type="button" className={`btn quiet sm ${styles.open}`} aria-expanded={isOpen} onClick={onToggle}>
            {isOpen ? <ChevronDown /> : <ChevronRight />}
            <Time at={entry.at} />
            <span className="sr">{strings.details(action)}</span>
          </button>
        </td>
        <td title={entry.actor ?? undefined}>
          <span className="cut">{actorOf(entry, name)}</span>
        </td>
        <td>
          <span className="mono">{action}</span>
        </td>
        <td className="only-wide mono muted" title={entry.target ? plainName(entry.target, 300) : undefined}>
          {entry.target ? plainName(entry.target, 40) : strings.none}
        </td>
        <td>
          <span className={entry.result === 'ok' ? 'badge' : 'badge sand'}>{strings.results[entry.result]}</span>
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={5} className={styles.details}>
            <CodeBlock text={plain(JSON.stringify(entry, null, 2), 8000)} label={strings.copy} wrap />
            <p className="row wrap">
              {only('actor', strings.onlyActor)}
              {only('action', strings.onlyAction)}
              {only('target', strings.onlyTarget)}
            </p>
          </td>
        </tr>
      )}
    </Fragment>
  );
}

function Entries({
  entries,
  names,
  filters,
}: {
  entries: AuditEntry[];
  names: Record<string, string>;
  filters: Filters;
}) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  function toggle(key: string): void {
    const next = new Set(open);
    if (!next.delete(key)) next.add(key);
    setOpen(next);
  }
  const { at, actor, action, target, result } = strings.columns;
  return (
    <Table
      label={strings.title}
      columns={[{ label: at }, { label: actor }, { label: action }, { label: target, wide: true }, { label: result }]}
    >
      {entries.map((entry) => (
        <Row
          key={keyOf(entry)}
          entry={entry}
          name={names[entry.actor ?? '']}
          isOpen={open.has(keyOf(entry))}
          onToggle={() => toggle(keyOf(entry))}
          filters={filters}
        />
      ))}
    </Table>
  );
}

function Bar({ filters, operator }: { filters: Filters; operator: boolean }) {
  const chip = (name: 'actor' | 'target') =>
    filters.get(name) && (
      <FilterChip onRemove={() => filters.set(name, '')}>
        {strings.chips[name]} {plainName(filters.get(name), 40)}
      </FilterChip>
    );
  const options = (words: Record<string, string>) => Object.entries(words).map(([id, label]) => ({ id, label }));
  return (
    <FilterBar>
      <FilterSearch
        label={strings.search}
        value={filters.get('action')}
        onChange={(text) => filters.set('action', text)}
      />
      {operator && (
        <FilterMenu
          label={strings.scope}
          any={strings.scopes.team}
          value={filters.get('scope')}
          onChange={(value) => filters.set('scope', value)}
          options={[{ id: 'all', label: strings.scopes.all }]}
        />
      )}
      <FilterMenu
        label={strings.result}
        any={strings.any}
        value={filters.get('result')}
        onChange={(value) => filters.set('result', value)}
        options={options(strings.results)}
      />
      <FilterMenu
        label={strings.since}
        any={strings.always}
        value={filters.get('since') in SINCE ? filters.get('since') : ''}
        onChange={(value) => filters.set('since', value)}
        options={options(strings.times)}
      />
      {chip('actor')}
      {chip('target')}
    </FilterBar>
  );
}

export default function Audit() {
  const filters = useFilters(FILTER_NAMES);
  const session = useQuery({ ...sessionQuery(), retry: false });
  const operator = session.data?.user.admin ?? false;
  const all = operator && filters.get('scope') === 'all';
  const filter = () => filterOf(filters.get, Date.now());
  const query = useInfiniteQuery({
    queryKey: ['audit', all, FILTER_NAMES.map(filters.get)],
    queryFn: ({ pageParam, signal }) => listAudit(all, filter(), { cursor: pageParam, limit: PAGE, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor ?? undefined,
  });
  const { data, error, isFetching, refetch } = query;
  const entries = data?.pages.flatMap((page) => page.entries) ?? [];
  const names = Object.assign({}, ...(data?.pages.map((page) => page.names) ?? []));
  const download = (format: 'jsonl' | 'csv') => () => location.assign(auditExport(all, filter(), format));
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            <IconButton label={strings.refresh} onPress={() => void refetch()} isDisabled={isFetching}>
              <RotateCw />
            </IconButton>
            <Menu
              label={strings.export}
              trigger={
                <Button>
                  <Download />
                  {strings.export}
                </Button>
              }
              items={[
                { id: 'jsonl', label: strings.exportJsonl, onAction: download('jsonl') },
                { id: 'csv', label: strings.exportCsv, onAction: download('csv') },
              ]}
              placement="bottom end"
            />
            <SnippetMenu api={curl('GET', '/audit')} cli={cli('audit', 'ls')} />
          </>
        }
      />
      <p className="muted">{strings.text}</p>
      <Bar filters={filters} operator={operator} />
      {error && (
        <ErrorBanner
          error={error}
          onRetry={isFetching ? undefined : () => void refetch()}
          lead={data ? 'This may be old.' : undefined}
        />
      )}
      {!data && !error && <SkeletonRows />}
      {data && entries.length > 0 && <Entries entries={entries} names={names} filters={filters} />}
      {data && entries.length === 0 && filters.active > 0 && (
        <NoMatch onClear={filters.clear}>{strings.noMatch}</NoMatch>
      )}
      {data && entries.length === 0 && filters.active === 0 && (
        <EmptyState title={strings.emptyTitle} command={cli('audit', 'ls')}>
          {strings.emptyText}
        </EmptyState>
      )}
      {query.hasNextPage && (
        <p className="row">
          <Button onPress={() => void query.fetchNextPage()} isDisabled={query.isFetchingNextPage}>
            {query.isFetchingNextPage ? strings.loading : strings.more}
          </Button>
        </p>
      )}
    </Page>
  );
}
