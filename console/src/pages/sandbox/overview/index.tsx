import { useQuery } from '@tanstack/react-query';
import { sandboxEventsQuery } from '../../../api';
import { plain, plainName } from '../../../format/plain';
import { Card, Link, SkeletonLines, Snippets } from '../../../ui';
import styles from '../sandbox.module.css';
import { strings } from '../strings';
import type { TabProps } from '../tab';
import { TabQuery } from '../tab-query';
import { Timeline } from '../timeline';
import { isStep } from '../words/event';
import { accessSnippets } from './access';
import { Facts } from './facts';
import { Network } from './network';
import local from './overview.module.css';
import { Usage } from './usage';

const LATEST = 6;

export default function Overview({ sandbox }: TabProps) {
  const words = strings.overview;
  return (
    <>
      <LastLines lines={sandbox.phase === 'failed' ? sandbox.lastLines : null} />
      <Usage sandbox={sandbox} />
      <div className={styles.columns}>
        <div className={styles.column}>
          <Facts sandbox={sandbox} />
          <Labels metadata={sandbox.metadata ?? {}} />
          <Network sandbox={sandbox} />
        </div>
        <div className={styles.column}>
          <Card title={words.access}>
            <Snippets label={words.access} snippets={accessSnippets(sandbox.sandboxID)} />
          </Card>
          <Latest id={sandbox.sandboxID} />
        </div>
      </div>
    </>
  );
}

function Latest({ id }: { id: string }) {
  const query = useQuery(sandboxEventsQuery(id, { limit: 20 }));
  return (
    <Card
      title={strings.overview.events}
      actions={<Link href={`/sandboxes/${id}/events`}>{strings.overview.allEvents}</Link>}
      flush
    >
      <TabQuery id={id} query={query} skeleton={<div className={local.pad}>{<SkeletonLines />}</div>}>
        {(events) => <Timeline events={events.filter((event) => !isStep(event.type)).slice(0, LATEST)} short />}
      </TabQuery>
    </Card>
  );
}

function Labels({ metadata }: { metadata: Record<string, string> }) {
  const labels = Object.entries(metadata);
  return (
    <Card title={strings.overview.labels}>
      {labels.length === 0 ? (
        <p className="muted">{strings.overview.noLabels}</p>
      ) : (
        <dl className={local.labels}>
          {labels.slice(0, 100).map(([name, value]) => (
            <div key={name}>
              <dt className="mono">{plainName(name, 120)}</dt>
              <dd className="mono">{plain(value, 500)}</dd>
            </div>
          ))}
        </dl>
      )}
    </Card>
  );
}

/** What a sandbox printed before it stopped. */
export function LastLines({ lines }: { lines: readonly string[] | null | undefined }) {
  if (!lines || lines.length === 0) return null;
  return (
    <Card title={strings.lastLines} flush>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre className={styles.lines} tabIndex={0}>
        {lines
          .slice(-20)
          .map((line) => plain(line, 1024))
          .join('\n')}
      </pre>
    </Card>
  );
}
