// Templates: those of the team, and a gallery of ones to begin with.
import { useQuery } from '@tanstack/react-query';
import { Box, ChevronDown, Container, FileText, Plus } from 'lucide-react';
import { useMemo } from 'react';
import { useSearchParams } from 'wouter';
import { templatesQuery } from '../../api';
import { cli, curl } from '../../format/snippet';
import {
  Button,
  EmptyState,
  FilterBar,
  FilterMenu,
  FilterSearch,
  Menu,
  Page,
  PageHead,
  QueryView,
  Segmented,
  SnippetMenu,
  useFilters,
} from '../../ui';
import { Gallery } from './gallery';
import { Mine } from './mine';
import { KINDS, type Kind, NewTemplate } from './new-template';
import { CATEGORIES, type Category } from './recipes';
import { strings } from './strings';

type View = 'mine' | 'gallery';

export default function Templates() {
  const query = useQuery(templatesQuery());
  const [params, setParams] = useSearchParams();
  const filters = useFilters(['q', 'kind']);
  const view: View = params.get('view') === 'gallery' ? 'gallery' : 'mine';
  const asked = KINDS.find((kind) => kind === params.get('new'));
  const q = filters.get('q').toLowerCase();
  const rows = useMemo(() => query.data?.items ?? [], [query.data]);
  const shown = useMemo(
    () => rows.filter((row) => [row.templateID, ...row.aliases].some((name) => name.toLowerCase().includes(q))),
    [rows, q],
  );

  function go(change: Record<string, string | null>): void {
    setParams((old) => {
      const next = new URLSearchParams(old);
      for (const [name, value] of Object.entries(change)) {
        if (value) next.set(name, value);
        else next.delete(name);
      }
      return next;
    });
  }
  const open = (kind: Kind) => go({ new: kind, sandbox: null });

  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            <SnippetMenu api={curl('GET', '/v2/templates')} cli={cli('template', 'ls')} />
            <Menu
              label={strings.createMenu}
              trigger={
                <Button look="primary">
                  <Plus />
                  {strings.create}
                  <ChevronDown />
                </Button>
              }
              items={[
                { label: strings.from.dockerfile, icon: <FileText />, onAction: () => open('dockerfile') },
                { label: strings.from.image, icon: <Container />, onAction: () => open('image') },
                { label: strings.from.sandbox, icon: <Box />, onAction: () => open('sandbox') },
              ]}
            />
          </>
        }
      >
        <Segmented<View>
          label={strings.tabs}
          value={view}
          onChange={(next) => go({ view: next === 'gallery' ? next : null, q: null, kind: null })}
          options={[
            {
              id: 'mine',
              label: (
                <>
                  {strings.mine} {query.data && <span className="n">{rows.length}</span>}
                </>
              ),
            },
            { id: 'gallery', label: strings.gallery },
          ]}
        />
      </PageHead>
      <FilterBar end={view === 'mine' && query.data ? strings.count(shown.length, rows.length) : undefined}>
        <FilterSearch
          key={view}
          label={view === 'mine' ? strings.search : strings.searchGallery}
          value={filters.get('q')}
          onChange={(text) => filters.set('q', text)}
        />
        {view === 'gallery' && (
          <FilterMenu
            label={strings.category}
            any={strings.all}
            value={filters.get('kind')}
            onChange={(kind) => filters.set('kind', kind)}
            options={CATEGORIES.map((id) => ({ id, label: strings.categories[id] }))}
          />
        )}
      </FilterBar>
      <QueryView query={query}>
        {() =>
          view === 'gallery' ? (
            <Gallery templates={rows} q={q} category={filters.get('kind') as Category | ''} onClear={filters.clear} />
          ) : rows.length === 0 ? (
            <EmptyState
              title={strings.emptyTitle}
              action={<Button onPress={() => open('dockerfile')}>{strings.emptyAction}</Button>}
              command="cabana template build ."
            >
              {strings.emptyText}
            </EmptyState>
          ) : (
            <Mine rows={shown} onClear={filters.clear} />
          )
        }
      </QueryView>
      {asked && (
        <NewTemplate
          key={asked}
          kind={asked}
          onKind={open}
          templates={rows}
          sandbox={params.get('sandbox') ?? undefined}
          onClose={() => go({ new: null, sandbox: null })}
        />
      )}
    </Page>
  );
}
