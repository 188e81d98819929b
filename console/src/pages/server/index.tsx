// This server: version, capacity, what it can do, how well it protects, and whether its records are true.
import { useQuery } from '@tanstack/react-query';
import { ScanSearch } from 'lucide-react';
import { checkQuery, statusQuery } from '../../api';
import { plain } from '../../format/plain';
import { cli, curl } from '../../format/snippet';
import { Button, Card, ErrorBanner, Page, PageHead, QueryView, SnippetMenu, StateText, Updated } from '../../ui';
import { Abilities, Capacity, Protection } from './cards';
import styles from './server.module.css';
import { strings } from './strings';

export default function ServerPage() {
  const query = useQuery(statusQuery());
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            {query.data && (
              <span className="only-wide">
                <Updated at={query.dataUpdatedAt} />
              </span>
            )}
            <SnippetMenu api={curl('GET', '/status')} cli={cli('doctor')} />
          </>
        }
      >
        {query.data && (
          <span className="meta num">
            {strings.version} {plain(query.data.version, 40)} · {strings.running(query.data.running)}
          </span>
        )}
      </PageHead>
      <QueryView query={query}>
        {(status) => (
          <div className={styles.columns}>
            <div className="stack">
              <Capacity status={status} />
              <Abilities status={status} />
              <Consistency />
            </div>
            <div className="stack">
              <Protection />
            </div>
          </div>
        )}
      </QueryView>
    </Page>
  );
}

/** Asked for by hand: it walks over everything that the server has. */
function Consistency() {
  const query = useQuery({ ...checkQuery(), enabled: false });
  const differences = query.data?.differences;
  return (
    <Card
      title={strings.consistency}
      actions={
        <Button size="sm" onPress={() => void query.refetch()} isPending={query.isFetching}>
          <ScanSearch />
          {differences ? strings.recheck : strings.check}
        </Button>
      }
    >
      <div className="stack" role="status">
        <p className="muted">{strings.consistencyText}</p>
        {query.error && <ErrorBanner error={query.error} />}
        {differences?.length === 0 && <StateText state="done" word={strings.same} />}
        {differences && differences.length > 0 && (
          <>
            <StateText state="failed" word={strings.differs(differences.length)} />
            <ul className={styles.differences}>
              {differences.slice(0, 200).map((text) => (
                <li key={text}>{plain(text, 400)}</li>
              ))}
            </ul>
          </>
        )}
      </div>
    </Card>
  );
}
