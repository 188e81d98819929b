// One webhook: what was sent to it, what waits, and what went wrong.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Pencil, RefreshCw, RotateCw } from 'lucide-react';
import { useState } from 'react';
import { deliveriesQuery, updateWebhook, type Webhook, type WebhookDelivery, webhooksQuery } from '../../api';
import { plain, plainName } from '../../format/plain';
import { type State, shortId } from '../../format/sandbox';
import { cli, curl } from '../../format/snippet';
import { duration, relative } from '../../format/time';
import { useLive } from '../../live';
import {
  Button,
  Card,
  DataList,
  EmptyState,
  IconButton,
  Link,
  Page,
  PageHead,
  QueryView,
  SnippetMenu,
  StateText,
  Table,
  Time,
  toast,
  Updated,
} from '../../ui';
import { WebhookForm } from './form';
import { WebhookState } from './state';
import { PREFIX, strings } from './strings';
import styles from './webhooks.module.css';

const words = strings.detail;
const STATES: Record<WebhookDelivery['status'], State> = { pending: 'waiting', delivered: 'done', failed: 'failed' };

export function Detail({ id }: { id: string }) {
  const list = useQuery(webhooksQuery());
  const query = useQuery(deliveriesQuery(id));
  const client = useQueryClient();
  const [editing, setEditing] = useState(false);
  const refresh = () => void client.invalidateQueries({ queryKey: ['webhooks'] });
  // What happens to sandboxes is what is delivered.
  useLive('sandboxes', (message) => {
    if (message.type === 'event') refresh();
  });
  const webhook = list.data?.find((one) => one.id === id);
  const failing = query.data?.some((one) => one.status === 'pending' && one.nextTryAt) ?? false;

  async function retry(): Promise<void> {
    try {
      await updateWebhook(id, { enabled: true });
      toast.done(words.retried);
      refresh();
    } catch (error) {
      toast.failed(strings.switchFailed, error);
    }
  }
  const crumbs = [{ label: strings.title, href: '/settings/webhooks' }];
  if (list.data && !webhook) {
    return (
      <Page title={words.gone}>
        <PageHead title={words.gone} crumbs={crumbs} />
      </Page>
    );
  }
  const name = webhook ? plainName(webhook.name, 60) : '…';
  return (
    <Page title={name}>
      <PageHead
        title={name}
        crumbs={crumbs}
        actions={
          <>
            {query.data && (
              <span className="only-wide">
                <Updated at={query.dataUpdatedAt} />
              </span>
            )}
            <IconButton label={words.refresh} look="plain" onPress={refresh} isPending={query.isFetching}>
              <RefreshCw />
            </IconButton>
            <SnippetMenu
              api={curl('GET', `/events/webhooks/${id}/deliveries`)}
              cli={cli('webhooks', 'deliveries', id)}
            />
            {failing && webhook?.enabled && (
              <Button onPress={retry}>
                <RotateCw />
                {words.retry}
              </Button>
            )}
            <Button onPress={() => setEditing(true)} isDisabled={!webhook}>
              <Pencil />
              {strings.edit}
            </Button>
          </>
        }
      >
        {webhook && <WebhookState webhook={webhook} />}
      </PageHead>
      <div className={styles.columns}>
        <section className="stack" aria-label={words.deliveries}>
          <QueryView query={query}>
            {(rows) =>
              rows.length === 0 ? (
                <EmptyState title={words.deliveries}>{words.empty}</EmptyState>
              ) : (
                <Deliveries rows={rows} />
              )
            }
          </QueryView>
        </section>
        {webhook && <About webhook={webhook} />}
      </div>
      {editing && webhook && <WebhookForm webhook={webhook} onClose={() => setEditing(false)} onDone={refresh} />}
    </Page>
  );
}

function About({ webhook }: { webhook: Webhook }) {
  return (
    <Card title={words.about}>
      <DataList
        items={[
          [
            strings.columns.url,
            <span key="url" className={`mono ${styles.url}`}>
              {plain(webhook.url, 500)}
            </span>,
          ],
          [
            strings.columns.events,
            <span key="events" className={`mono ${styles.url}`}>
              {webhook.events.map((event) => plainName(event.replace(PREFIX, ''), 60)).join(', ')}
            </span>,
          ],
          [words.secret, words.hidden],
          [words.made, <Time key="made" at={webhook.createdAt} />],
        ]}
      />
    </Card>
  );
}

function Deliveries({ rows }: { rows: WebhookDelivery[] }) {
  const { columns } = words;
  return (
    <Table
      label={words.deliveries}
      columns={[
        { label: columns.event },
        { label: columns.state },
        { label: columns.answer },
        { label: columns.tries, wide: true, right: true },
        { label: columns.took, wide: true, right: true },
        { label: columns.sandbox, wide: true },
        { label: columns.when, wide: true, right: true },
      ]}
    >
      {rows.map((row) => (
        <tr key={row.eventId}>
          <td className="mono">{plainName(row.eventType.replace(PREFIX, ''), 40)}</td>
          <td>
            <StateText
              state={STATES[row.status] ?? 'stopped'}
              word={words.states[row.status] ?? row.status}
              detail={row.status === 'pending' && row.nextTryAt ? words.next(relative(row.nextTryAt)) : null}
            />
          </td>
          <td className={styles.answer}>
            {row.lastStatus && <span className="num">{row.lastStatus} </span>}
            {row.lastError && <span className="muted">{plain(row.lastError, 300)}</span>}
          </td>
          <td className="only-wide right num">{row.tries}</td>
          <td className="only-wide right num muted">
            {row.finishedAt && row.status === 'delivered'
              ? duration((Date.parse(row.finishedAt) - Date.parse(row.timestamp)) / 1000)
              : '–'}
          </td>
          <td className="only-wide">
            <Link href={`/sandboxes/${row.sandboxId}`} className="mono" title={row.sandboxId}>
              {shortId(row.sandboxId)}
            </Link>
          </td>
          <td className="only-wide right muted">
            <Time at={row.timestamp} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
