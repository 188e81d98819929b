import { useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { listSandboxes, sandboxesQuery } from '../../api';
import { ButtonLink, EmptyState, ErrorBanner, KeyHint, Page, PageHead, SkeletonRows, Updated } from '../../ui';
import { BuildBox } from './build-box';
import { Counts } from './counts';
import styles from './dashboard.module.css';
import { FirstSteps } from './first-steps';
import { Machine } from './machine';
import { Recent } from './recent';
import { RecentChats } from './recent-chats';
import { strings } from './strings';

export default function Dashboard() {
  const all = useQuery(sandboxesQuery());
  // The newest are there at once, however many there are in all.
  const newest = useQuery({
    queryKey: ['sandboxes', {}, 'newest'],
    queryFn: ({ signal }) => listSandboxes({}, { limit: 8, signal }),
  });
  const rows = newest.data?.items;
  const failed = newest.error ?? all.error;
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            {all.data && (
              <span className="only-wide">
                <Updated at={all.dataUpdatedAt} />
              </span>
            )}
            <ButtonLink href="/create" look="primary">
              <Plus />
              {strings.create}
              <KeyHint keys="c" className="only-wide" />
            </ButtonLink>
          </>
        }
      />
      {failed && <ErrorBanner error={failed} onRetry={() => void Promise.all([newest.refetch(), all.refetch()])} />}
      <BuildBox />
      <Counts rows={all.data?.items} />
      <div className={styles.columns}>
        <div className={styles.column}>
          <RecentChats />
          {rows === undefined ? !failed && <SkeletonRows rows={5} /> : rows.length > 0 && <Recent rows={rows} />}
          {rows?.length === 0 && (
            <EmptyState
              title={strings.emptyTitle}
              action={<ButtonLink href="/create">{strings.emptyAction}</ButtonLink>}
              command="cabana create"
            >
              {strings.emptyText}
            </EmptyState>
          )}
          <Machine />
        </div>
        <div className={styles.column}>{rows && <FirstSteps hasSandbox={rows.length > 0} />}</div>
      </div>
    </Page>
  );
}
