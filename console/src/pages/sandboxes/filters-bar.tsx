// The filters of the list. All of them live in the URL.
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { type SandboxRow, templatesQuery } from '../../api';
import { plainName } from '../../format/plain';
import { FilterBar, FilterChip, FilterMenu, FilterSearch, type Filters, StateDot } from '../../ui';
import { commonLabels, STATES } from './filter';
import { LabelFilter } from './label-filter';
import { strings } from './strings';

const SHAPES = {
  running: 'running',
  paused: 'paused',
  archived: 'archived',
  failed: 'failed',
  ended: 'stopped',
} as const;

const STATE_OPTIONS = STATES.map((state) => ({
  id: state,
  label: strings.states[state],
  icon: <StateDot state={SHAPES[state]} />,
}));

export function SandboxFilters({ filters, rows, end }: { filters: Filters; rows: readonly SandboxRow[]; end: string }) {
  const templates = useQuery(templatesQuery());
  const names = useMemo(() => {
    const found = (templates.data?.items ?? []).map((template) => template.aliases[0] ?? template.templateID);
    return [...new Set(found)].sort().map((name) => ({ id: name, label: plainName(name, 60) }));
  }, [templates.data]);
  const labels = filters.getAll('label');
  const known = useMemo(() => commonLabels(rows), [rows]);
  return (
    <FilterBar end={end}>
      <FilterSearch
        label={strings.search}
        placeholder={strings.searchHint}
        value={filters.get('q')}
        onChange={(q) => filters.set('q', q)}
      />
      <FilterMenu
        label={strings.filters.state}
        value={filters.get('state')}
        onChange={(state) => filters.set('state', state)}
        options={STATE_OPTIONS}
      />
      <FilterMenu
        label={strings.filters.template}
        value={filters.get('template')}
        onChange={(template) => filters.set('template', template)}
        options={names}
      />
      {labels.map((label) => (
        <FilterChip
          key={label}
          onRemove={() =>
            filters.set(
              'label',
              labels.filter((other) => other !== label),
            )
          }
        >
          {plainName(label, 60)}
        </FilterChip>
      ))}
      <LabelFilter
        known={known.filter((label) => !labels.includes(label))}
        onAdd={(label) => filters.set('label', [...new Set([...labels, label])])}
      />
    </FilterBar>
  );
}
