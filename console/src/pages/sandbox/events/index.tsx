import { useState } from 'react';
import { cli, curl } from '../../../format/snippet';
import { Button, ErrorBanner, SkeletonRows, SnippetMenu, Switch } from '../../../ui';
import styles from '../sandbox.module.css';
import { strings } from '../strings';
import type { TabProps } from '../tab';
import { isAway, useEndWatch } from '../tab-query';
import { Timeline } from '../timeline';
import { isStep } from '../words/event';
import { useEvents } from './use-events';

export default function EventsTab({ sandbox }: TabProps) {
  const id = sandbox.sandboxID;
  return (
    <div className={styles.panel}>
      <EventList
        id={id}
        actions={<SnippetMenu api={curl('GET', `/events/sandboxes/${id}?limit=100`)} cli={cli('events', id)} />}
      />
    </div>
  );
}

export function EventList({ id, actions }: { id: string; actions?: React.ReactNode }) {
  const [steps, setSteps] = useState(false);
  const { query, events } = useEvents(id);
  const ended = useEndWatch(id, query.error);
  const shown = steps ? events : events.filter((event) => !isStep(event.type));
  const words = strings.events;
  return (
    <>
      <div className="row">
        <Switch isSelected={steps} onChange={setSteps}>
          {words.steps}
        </Switch>
        <span className="grow" />
        {actions}
      </div>
      {query.error && !ended && !(query.data && isAway(query.error)) && (
        <ErrorBanner error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.isPending ? (
        <SkeletonRows />
      ) : (
        <section className="card clip">
          {shown.length === 0 ? <div className="empty">{words.empty}</div> : <Timeline events={shown} />}
        </section>
      )}
      {query.hasNextPage && (
        <div>
          <Button onPress={() => void query.fetchNextPage()} isPending={query.isFetchingNextPage}>
            {words.more}
          </Button>
        </div>
      )}
      {!query.hasNextPage && events.length >= 200 && <p className="meta">{words.kept}</p>}
    </>
  );
}
