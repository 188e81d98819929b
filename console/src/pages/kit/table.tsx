// Ten thousand rows.
import { Pause, Trash2 } from 'lucide-react';
import { useMemo, useState } from 'react';
import { type Status, statusOf } from '../../format/sandbox';
import {
  BulkBar,
  Button,
  type Column,
  FilterBar,
  FilterMenu,
  FilterSearch,
  NoMatch,
  StateText,
  useFilters,
  VirtualTable,
} from '../../ui';

interface Row {
  id: string;
  name: string;
  status: Status;
  size: string;
}

const NOW = Date.UTC(2026, 0, 1);
const PHASES = ['running', 'running', 'paused', 'failed', 'archived'];
const ROWS: Row[] = Array.from({ length: 10_000 }, (_, i) => {
  const phase = PHASES[i % 5] ?? 'running';
  const known = { sandboxID: `i${i}`, state: 'running' as const, startedAt: new Date(NOW - i * 60_000).toISOString() };
  const status = statusOf({ ...known, phase, reason: phase === 'failed' ? 'ran out of memory' : null }, NOW);
  return { id: `i${i}`, name: `sandbox-${i}`, status, size: `${1 + (i % 8)} vCPU` };
});

const COLUMNS: Column<Row>[] = [
  {
    id: 'name',
    header: 'Name',
    width: 'minmax(160px, 1fr)',
    cell: (row) => <span className="name">{row.name}</span>,
    sortable: true,
  },
  {
    id: 'state',
    header: 'State',
    width: 'minmax(160px, 1fr)',
    cell: (row) => <StateText {...row.status} />,
    span: (row) => (row.status.state === 'failed' ? 2 : 1),
  },
  { id: 'size', header: 'Size', width: '120px', right: true, cell: (row) => row.size, hideBelow: 800 },
];

const rowKey = (row: Row) => row.id;
const rowLabel = (row: Row) => row.name;
const isDim = (row: Row) => row.status.state === 'paused' || row.status.state === 'archived';
const small = (row: Row) => (
  <>
    <span className="name">{row.name}</span>
    <StateText {...row.status} />
  </>
);

export function KitTable() {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const filters = useFilters(['q', 'state']);
  const rows = useMemo(() => {
    const q = filters.get('q');
    const state = filters.get('state');
    return ROWS.filter((row) => row.name.includes(q) && (!state || row.status.state === state));
  }, [filters]);
  return (
    <>
      <FilterBar end={`${rows.length} of ${ROWS.length}`}>
        <FilterSearch label="Name" value={filters.get('q')} onChange={(q) => filters.set('q', q)} />
        <FilterMenu
          label="State"
          value={filters.get('state')}
          onChange={(state) => filters.set('state', state)}
          options={[
            { id: 'running', label: 'Running' },
            { id: 'failed', label: 'Failed' },
          ]}
        />
      </FilterBar>
      <VirtualTable
        label="Rows"
        rows={rows}
        columns={COLUMNS}
        rowKey={rowKey}
        rowLabel={rowLabel}
        selected={selected}
        onSelect={setSelected}
        dim={isDim}
        small={small}
        empty={<NoMatch onClear={filters.clear} />}
      />
      <BulkBar count={selected.size} label="Selected rows" onClear={() => setSelected(new Set())}>
        <Button look="quiet">
          <Pause />
          Pause
        </Button>
        <Button look="quiet" className="danger">
          <Trash2 />
          {`Kill ${selected.size}…`}
        </Button>
      </BulkBar>
    </>
  );
}
