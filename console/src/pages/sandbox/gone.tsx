// A sandbox that ended keeps its page: why, who, when, what it printed last.
import { useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { type SandboxFull, sandboxEventsQuery } from '../../api';
import { plainName } from '../../format/plain';
import { templateName } from '../../format/sandbox';
import { mib } from '../../format/size';
import { duration, relative, utc } from '../../format/time';
import {
  Button,
  ButtonLink,
  Card,
  DataList,
  Id,
  Link,
  Page,
  PageHead,
  StateBadge,
  StateDot,
  Time,
  useNow,
} from '../../ui';
import { EventList } from './events';
import Logs from './logs';
import { againPath, nameOf } from './name';
import { LastLines } from './overview';
import { MadeBy } from './overview/facts';
import styles from './sandbox.module.css';
import { SnapshotList } from './snapshots';
import { strings } from './strings';
import { useNames } from './use-names';
import { eventWords, reasonWords } from './words/event';

const words = strings.gone;

export function Gone({ sandbox }: { sandbox: SandboxFull }) {
  const now = useNow();
  const name = useNames();
  const [showLog, setShowLog] = useState(false);
  const { data: events } = useQuery(sandboxEventsQuery(sandbox.sandboxID, { limit: 5 }));
  const end = events?.find((event) => event.type.endsWith('.killed') || event.type.endsWith('.ending'));
  const by = end && eventWords(end).by;
  const at = sandbox.since ?? end?.timestamp ?? null;
  const reason = reasonWords(sandbox.reason, name);
  const failed = end ? eventWords(end).state === 'failed' : false;
  const lived = at ? (Date.parse(at) - Date.parse(sandbox.startedAt)) / 1000 : Number.NaN;
  return (
    <Page title={nameOf(sandbox)}>
      <div className={styles.head}>
        <PageHead
          title={nameOf(sandbox)}
          crumbs={[{ label: strings.sandboxes, href: '/sandboxes' }]}
          actions={
            <ButtonLink href={againPath(sandbox)} look="primary">
              <Plus />
              {words.again}
            </ButtonLink>
          }
        >
          <StateBadge state={failed ? 'failed' : 'stopped'} word={words.ended} detail={at && relative(at, now)} />
          <Id id={sandbox.sandboxID} full />
        </PageHead>
        <p className={`muted num ${styles.policy}`}>
          <span>
            <Link href={`/templates/${encodeURIComponent(sandbox.templateID)}`} className="mono">
              {plainName(templateName(sandbox), 60)}
            </Link>
          </span>
          <span>{`${sandbox.cpuCount} vCPU`}</span>
          <span>{mib(sandbox.memoryMB)}</span>
        </p>
      </div>
      <div className="banner" data-state={failed ? 'failed' : 'stopped'} role="status">
        <StateDot state={failed ? 'failed' : 'stopped'} />
        <div className="grow">
          <b>{reason ? words.because(reason) : words.unknownCause}</b> {words.lost}
        </div>
      </div>
      <div className={styles.columns}>
        <div className={styles.column}>
          <LastLines lines={sandbox.lastLines} />
          <EventList id={sandbox.sandboxID} />
          {showLog && <Logs sandbox={sandbox} />}
          {!showLog && (
            <div>
              <Button onPress={() => setShowLog(true)}>{words.log}</Button>
            </div>
          )}
        </div>
        <div className={styles.column}>
          <Card title={strings.overview.facts}>
            <DataList
              items={[
                [words.who, by ? name(by) : failed ? strings.who.system : null],
                [
                  words.when,
                  at && (
                    <span key="when">
                      <Time at={at} /> <span className="muted">({utc(at)})</span>
                    </span>
                  ),
                ],
                [words.lived, Number.isFinite(lived) && lived >= 0 ? duration(lived) : null],
                [strings.overview.madeBy, <MadeBy key="by" sandbox={sandbox} />],
              ]}
            />
          </Card>
          <SnapshotList id={sandbox.sandboxID} quiet />
        </div>
      </div>
    </Page>
  );
}
