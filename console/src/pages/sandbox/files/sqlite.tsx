// A SQLite database: its tables, their rows in pages, and a field for questions. It is read inside the sandbox.
import { useQuery } from '@tanstack/react-query';
import { ChevronLeft, ChevronRight, Play, Table2 } from 'lucide-react';
import { useState } from 'react';
import { isApiError, querySqlite, type SqliteRows } from '../../../api';
import { bytes } from '../../../format/size';
import { Button, ErrorBanner, IconButton, SkeletonLines, TextField } from '../../../ui';
import { Grid } from './grid';
import { plain } from './names';
import styles from './preview.module.css';
import { strings } from './strings';

const PAGE = 100;
const TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name LIMIT 1000";
const quote = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** What a question is about: rows of a table, or what a person typed. */
type Shown = { table: string; offset: number } | { sql: string };

const sqlOf = (shown: Shown) =>
  'sql' in shown ? shown.sql : `SELECT * FROM ${quote(shown.table)} LIMIT ${PAGE} OFFSET ${shown.offset}`;

export function SqliteView({ id, path, version }: { id: string; path: string; version: string }) {
  const ask = (sql: string) => ({
    queryKey: ['sqlite', id, path, version, sql],
    queryFn: ({ signal }: { signal: AbortSignal }) => querySqlite(id, { path, sql }, signal),
    gcTime: 30_000,
  });
  const tables = useQuery(ask(TABLES));
  const names = (tables.data?.rows ?? []).map((row) => String(row[0]));
  const [chosen, choose] = useState<Shown | null>(null);
  const [sql, setSql] = useState('');
  const shown: Shown | null = chosen ?? (names[0] === undefined ? null : { table: names[0], offset: 0 });
  const result = useQuery({ ...ask(shown ? sqlOf(shown) : ''), enabled: shown !== null });
  const table = shown && 'table' in shown ? shown : null;
  const counted = useQuery({
    ...ask(table ? `SELECT count(*) FROM ${quote(table.table)}` : ''),
    enabled: table !== null,
  });
  const all = typeof counted.data?.rows[0]?.[0] === 'number' ? counted.data.rows[0][0] : null;
  if (tables.error) {
    const missing = isApiError(tables.error, 'sqlite_unavailable');
    return (
      <div className={styles.padded}>
        {missing ? (
          <p>{strings.sqliteMissing}</p>
        ) : (
          <ErrorBanner error={tables.error} onRetry={() => tables.refetch()} />
        )}
      </div>
    );
  }
  function run(): void {
    if (sql.trim()) choose({ sql: sql.trim() });
  }
  return (
    <div className={styles.sqlite}>
      <div className={styles.sql}>
        <TextField
          label={strings.sql}
          value={sql}
          onChange={setSql}
          mono
          rows={2}
          placeholder="SELECT …"
          maxLength={65536}
          className="grow"
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            run();
          }}
        />
        <Button onPress={run} isDisabled={!sql.trim()}>
          <Play />
          {strings.run}
        </Button>
      </div>
      <div className={styles.sqliteBody}>
        <nav className={styles.tables} aria-label={strings.tables}>
          {names.map((name) => (
            <button
              key={name}
              type="button"
              aria-current={table?.table === name || undefined}
              onClick={() => choose({ table: name, offset: 0 })}
            >
              <Table2 className="lucide s" />
              <span className="cut">{plain(name, 80)}</span>
            </button>
          ))}
          {tables.data && names.length === 0 && <p className="meta">{strings.noTables}</p>}
        </nav>
        <div className={styles.sqliteRows}>
          {result.error ? (
            <div className={styles.padded}>
              <ErrorBanner error={result.error} />
            </div>
          ) : result.data ? (
            <Rows result={result.data} first={table ? table.offset + 1 : 1} />
          ) : (
            shown && (
              <div className={styles.padded}>
                <SkeletonLines lines={4} />
              </div>
            )
          )}
          <footer className={styles.gridFoot}>
            {result.data && !table && (
              <span className="meta num">{strings.sqlRows(result.data.rows.length, result.data.truncated)}</span>
            )}
            {result.data && table && (
              <>
                <span className="meta num">
                  {result.data.rows.length === 0
                    ? strings.noRows
                    : strings.rowsOf(table.offset + 1, table.offset + result.data.rows.length, all)}
                </span>
                <IconButton
                  size="sm"
                  label={strings.earlier}
                  isDisabled={table.offset === 0}
                  onPress={() => choose({ ...table, offset: Math.max(0, table.offset - PAGE) })}
                >
                  <ChevronLeft />
                </IconButton>
                <IconButton
                  size="sm"
                  label={strings.later}
                  isDisabled={result.data.rows.length < PAGE}
                  onPress={() => choose({ ...table, offset: table.offset + PAGE })}
                >
                  <ChevronRight />
                </IconButton>
              </>
            )}
          </footer>
        </div>
      </div>
    </div>
  );
}

function Rows({ result, first }: { result: SqliteRows; first: number }) {
  const columns = result.columns.map((column) => plain(column, 100));
  return <Grid label={strings.tables} columns={columns} rows={result.rows} cell={cellOf} first={first} />;
}

function cellOf(value: unknown): React.ReactNode {
  if (value === null || value === undefined) return <span className={styles.null}>{strings.nullValue}</span>;
  if (typeof value === 'object') {
    const size = (value as { size?: number }).size;
    return <span className={styles.null}>{strings.blob(bytes(Number(size)))}</span>;
  }
  return plain(String(value), 400);
}
