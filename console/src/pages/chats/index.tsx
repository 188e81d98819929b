import { cli, curl } from '../../format/snippet';
import { EmptyState, FilterSearch, NoMatch, Page, PageHead, QueryView, SnippetMenu, useFilters } from '../../ui';
import styles from './chats.module.css';
import { ChatList, More } from './list';
import { Start } from './start';
import { strings } from './strings';
import { useChatPages } from './use-pages';

export default function Chats() {
  const filters = useFilters(['q']);
  const q = filters.get('q');
  const { query, loadMore, isLoadingMore, moreError } = useChatPages(q ? { q } : {});
  return (
    <Page title={strings.title} narrow>
      <PageHead
        title={strings.title}
        actions={
          <SnippetMenu api={curl('POST', '/chats', { prompt: strings.example })} cli={cli('chat', strings.example)} />
        }
      />
      <Start />
      <section className="stack" aria-label={strings.recent}>
        <div className={styles.head}>
          <h2>{strings.recent}</h2>
          <FilterSearch label={strings.search} value={q} onChange={(text) => filters.set('q', text)} />
        </div>
        <QueryView query={query}>
          {(page) =>
            page.chats.length > 0 ? (
              <div className={`tablebox ${styles.box}`}>
                <ChatList chats={page.chats} label={strings.recent} />
                {page.nextCursor && (
                  <More
                    count={page.chats.length}
                    busy={isLoadingMore}
                    error={moreError}
                    onMore={() => void loadMore()}
                  />
                )}
              </div>
            ) : q ? (
              <NoMatch onClear={filters.clear}>{strings.noMatch}</NoMatch>
            ) : (
              <EmptyState title={strings.emptyTitle} command={cli('chat', strings.example)}>
                {strings.emptyText}
              </EmptyState>
            )
          }
        </QueryView>
      </section>
    </Page>
  );
}
