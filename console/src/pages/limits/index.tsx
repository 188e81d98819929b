// What the team uses and may use, and what to do where nothing is left.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type QuotaState, quotasQuery, type TeamQuotas } from '../../api';
import { mib } from '../../format/size';
import { Button, Card, CopyButton, DataList, Meter, Page, PageHead, QueryView } from '../../ui';
import { isFull } from './draft';
import { EditLimits } from './edit';
import styles from './limits.module.css';
import { strings } from './strings';

const inMib = (kind: string) => kind === 'memory_mb' || kind === 'disk_mb';
const amount = (kind: string, value: number) => (inMib(kind) ? mib(value) : value.toLocaleString('en'));

function Quota({ state }: { state: QuotaState }) {
  const { kind, used, limit, source } = state;
  const shown = limit ?? null;
  const full = isFull(state);
  const note = full ? strings.full[kind] : strings.counted[kind];
  return (
    <li className={styles.quota}>
      {kind === 'lifetime_seconds' || shown === null ? (
        <DataList
          items={[
            [
              strings.kinds[kind],
              kind === 'lifetime_seconds'
                ? strings.atMost(`${amount(kind, shown ?? 0)} s`)
                : strings.unlimited(amount(kind, used)),
            ],
          ]}
        />
      ) : (
        <Meter
          label={strings.kinds[kind]}
          value={Math.min(used, shown)}
          max={Math.max(shown, 1)}
          text={strings.of(amount(kind, used), amount(kind, shown))}
        />
      )}
      <p className={full ? `${styles.note} ${styles.full}` : styles.note}>
        {note}
        {strings.sources[source] && <span className="muted"> ({strings.sources[source]})</span>}
      </p>
    </li>
  );
}

function Raise({ quotas }: { quotas: TeamQuotas }) {
  const first = quotas.quotas.find(isFull);
  if (!first) return null;
  const command = `cabana quota set ${quotas.teamID} ${first.kind}=${(first.limit ?? 0) * 2 || 1}`;
  return (
    <p className="row meta wrap">
      {strings.ask} <code>{command}</code>
      <CopyButton text={command} label={command} />
    </p>
  );
}

export default function Limits() {
  const query = useQuery(quotasQuery());
  const client = useQueryClient();
  const [editing, setEditing] = useState(false);
  return (
    <Page title={strings.title} narrow>
      <PageHead
        title={strings.title}
        actions={query.data?.operator && <Button onPress={() => setEditing(true)}>{strings.edit}</Button>}
      />
      <p className="muted">{strings.text}</p>
      <QueryView query={query}>
        {(quotas) => (
          <>
            <Card>
              <DataList items={[[strings.plan, <code key="plan">{quotas.plan}</code>]]} />
              <ul className={styles.list} aria-label={strings.title}>
                {quotas.quotas.map((state) => (
                  <Quota key={state.kind} state={state} />
                ))}
              </ul>
            </Card>
            <Raise quotas={quotas} />
            {editing && (
              <EditLimits
                quotas={quotas}
                onClose={() => setEditing(false)}
                onDone={() => {
                  setEditing(false);
                  void client.invalidateQueries({ queryKey: ['quotas'] });
                }}
              />
            )}
          </>
        )}
      </QueryView>
    </Page>
  );
}
