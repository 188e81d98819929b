// The team's templates, one in a row.
import { useQuery } from '@tanstack/react-query';
import { ExternalLink, MoreHorizontal, Play, ScrollText } from 'lucide-react';
import { useMemo } from 'react';
import { useLocation } from 'wouter';
import { sandboxesQuery, type Template, templateQuery } from '../../api';
import { plainName } from '../../format/plain';
import { mib } from '../../format/size';
import { type Column, IconButton, Link, Menu, NoMatch, Time, VirtualTable } from '../../ui';
import { Glyph, glyphOf } from './glyph';
import { BuildState } from './state';
import { strings } from './strings';
import styles from './templates.module.css';

export const nameOf = (row: Template): string => plainName(row.aliases[0] ?? row.templateID, 80);
const path = (row: Template) => `/templates/${row.templateID}`;
const rowKey = (row: Template) => row.templateID;

/** The list has the build that sandboxes start from; the newest may be another one, which failed. */
function useNewest(row: Template): { buildID: string; status: string } {
  const query = useQuery({ ...templateQuery(row.templateID), staleTime: 30_000, enabled: row.buildCount > 1 });
  return query.data?.builds[0] ?? { buildID: row.buildID, status: row.buildStatus };
}

function Newest({ row }: { row: Template }) {
  const { buildID, status } = useNewest(row);
  return (
    <Link href={`${path(row)}/builds/${buildID}`} className={styles.plainLink}>
      <BuildState status={status} />
    </Link>
  );
}

/** Without a link of its own: on phones, the row is one target. */
function SmallState({ row }: { row: Template }) {
  return <BuildState status={useNewest(row).status} />;
}

function Name({ row }: { row: Template }) {
  const [, ...others] = row.aliases;
  return (
    <span className={`row ${styles.row}`}>
      <Glyph text={glyphOf(nameOf(row))} />
      <Link href={path(row)} className="name mono cut">
        {nameOf(row)}
      </Link>
      {others.map((alias) => (
        <span key={alias} className="meta mono cut">
          {plainName(alias, 40)}
        </span>
      ))}
      {row.public && <span className="badge line">{strings.public}</span>}
    </span>
  );
}

function Actions({ row }: { row: Template }) {
  const name = nameOf(row);
  return (
    <Menu
      label={strings.more(name)}
      trigger={
        <IconButton label={strings.more(name)} size="sm">
          <MoreHorizontal />
        </IconButton>
      }
      items={[
        { label: strings.use, icon: <Play />, href: createHref(row), disabled: row.buildStatus !== 'ready' },
        { label: strings.open, icon: <ExternalLink />, href: path(row) },
        { label: strings.seeLog, icon: <ScrollText />, href: `${path(row)}/builds/${row.buildID}` },
      ]}
    />
  );
}

export const createHref = (row: Template) => `/create?template=${encodeURIComponent(row.aliases[0] ?? row.templateID)}`;

export function Mine({ rows, onClear }: { rows: readonly Template[]; onClear: () => void }) {
  const [, navigate] = useLocation();
  const sandboxes = useQuery(sandboxesQuery());
  const used = useMemo(() => {
    const counts = new Map<string, number>();
    for (const { templateID } of sandboxes.data?.items ?? []) counts.set(templateID, (counts.get(templateID) ?? 0) + 1);
    return counts;
  }, [sandboxes.data]);
  const columns = useMemo<Column<Template>[]>(
    () => [
      { id: 'name', header: strings.columns.name, width: 'minmax(220px, 2fr)', cell: (row) => <Name row={row} /> },
      { id: 'build', header: strings.columns.build, width: 'minmax(120px, 1fr)', cell: (row) => <Newest row={row} /> },
      {
        id: 'size',
        header: strings.columns.size,
        width: 'minmax(190px, 1fr)',
        hideBelow: 900,
        cell: (row) => (
          <span className="muted">{strings.sizeOf(row.cpuCount, mib(row.memoryMB), mib(row.diskSizeMB))}</span>
        ),
      },
      {
        id: 'used',
        header: strings.columns.used,
        width: 'minmax(110px, 1fr)',
        cell: (row) => <Used row={row} now={used.get(row.templateID) ?? 0} />,
      },
      {
        id: 'updated',
        header: strings.columns.updated,
        width: '100px',
        right: true,
        hideBelow: 760,
        cell: (row) => <Time at={row.updatedAt} className="muted" />,
      },
      {
        id: 'actions',
        header: <span className="sr">{strings.columns.actions}</span>,
        width: '52px',
        right: true,
        cell: (row) => <Actions row={row} />,
      },
    ],
    [used],
  );
  return (
    <VirtualTable
      label={strings.title}
      rows={rows}
      columns={columns}
      rowKey={rowKey}
      rowLabel={nameOf}
      onOpen={(row) => navigate(path(row))}
      small={small}
      empty={<NoMatch onClear={onClear} />}
    />
  );
}

function Used({ row, now }: { row: Template; now: number }) {
  const title = strings.started(row.spawnCount);
  if (now === 0) {
    return (
      <span className="meta" title={title}>
        {strings.unused}
      </span>
    );
  }
  return (
    <Link href={`/sandboxes?template=${encodeURIComponent(row.aliases[0] ?? row.templateID)}`} title={title}>
      {strings.usedBy(now)}
    </Link>
  );
}

const small = (row: Template) => (
  <>
    <span className="row">
      <Link href={path(row)} className="name mono cut">
        {nameOf(row)}
      </Link>
      {row.public && <span className="badge line">{strings.public}</span>}
    </span>
    <span className="row">
      <SmallState row={row} />
      <span className="meta cut">{strings.sizeOf(row.cpuCount, mib(row.memoryMB), mib(row.diskSizeMB))}</span>
    </span>
  </>
);
