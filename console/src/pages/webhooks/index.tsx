// The team's webhooks.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { List, MoreHorizontal, Pencil, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useParams } from 'wouter';
import { deleteWebhook, updateWebhook, type Webhook, webhooksQuery } from '../../api';
import { plain, plainName } from '../../format/plain';
import { cli, curl } from '../../format/snippet';
import {
  Button,
  ConfirmDialog,
  EmptyState,
  IconButton,
  Link,
  Menu,
  Page,
  PageHead,
  QueryView,
  SnippetMenu,
  Switch,
  Table,
  toast,
} from '../../ui';
import { Detail } from './detail';
import { WebhookForm } from './form';
import { WebhookState } from './state';
import { EVENTS, strings } from './strings';
import styles from './webhooks.module.css';

export default function Webhooks() {
  const { id } = useParams();
  return id ? <Detail key={id} id={id} /> : <WebhookList />;
}

const nameOf = (webhook: Webhook) => plainName(webhook.name, 60);

function WebhookList() {
  const query = useQuery(webhooksQuery());
  const client = useQueryClient();
  const [form, setForm] = useState<Webhook | 'new' | null>(null);
  const [deleted, setDeleted] = useState<Webhook | null>(null);
  const [stopped, setStopped] = useState<Webhook | null>(null);
  const refresh = () => void client.invalidateQueries({ queryKey: ['webhooks'] });

  async function enable(webhook: Webhook, enabled: boolean): Promise<void> {
    await updateWebhook(webhook.id, { enabled });
    toast.done(enabled ? strings.switchedOn(nameOf(webhook)) : strings.switchedOff(nameOf(webhook)));
    refresh();
  }
  function turn(webhook: Webhook, on: boolean): void {
    if (!on && (webhook.pending ?? 0) > 0) setStopped(webhook);
    else enable(webhook, on).catch((error) => toast.failed(strings.switchFailed, error));
  }
  async function remove(webhook: Webhook): Promise<void> {
    await deleteWebhook(webhook.id);
    toast.done(strings.deleted(nameOf(webhook)));
    refresh();
  }
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            <SnippetMenu api={curl('GET', '/events/webhooks')} cli={cli('webhooks', 'ls')} />
            <Button look="primary" onPress={() => setForm('new')}>
              <Plus />
              {strings.create}
            </Button>
          </>
        }
      />
      <QueryView query={query}>
        {(rows) =>
          rows.length === 0 ? (
            <EmptyState
              title={strings.emptyTitle}
              action={<Button onPress={() => setForm('new')}>{strings.create}</Button>}
              command="cabana webhooks add https://example.com/hook"
            >
              {strings.emptyText}
            </EmptyState>
          ) : (
            <>
              <p className="muted">{strings.text}</p>
              <Table
                label={strings.title}
                columns={[
                  { label: strings.columns.name },
                  { label: strings.columns.state },
                  { label: strings.columns.url, wide: true },
                  { label: strings.columns.events, wide: true },
                  { label: strings.columns.on, right: true },
                  { label: strings.columns.actions, hideLabel: true },
                ]}
              >
                {rows.map((webhook) => (
                  <Row
                    key={webhook.id}
                    webhook={webhook}
                    onTurn={(on) => turn(webhook, on)}
                    onEdit={() => setForm(webhook)}
                    onDelete={() => setDeleted(webhook)}
                  />
                ))}
              </Table>
            </>
          )
        }
      </QueryView>
      {form && (
        <WebhookForm webhook={form === 'new' ? undefined : form} onClose={() => setForm(null)} onDone={refresh} />
      )}
      {deleted && (
        <ConfirmDialog
          isOpen
          onClose={() => setDeleted(null)}
          title={strings.deleteTitle(nameOf(deleted))}
          action={strings.deleteAction(nameOf(deleted))}
          onConfirm={() => remove(deleted)}
        >
          <p>{strings.deleteText(plain(deleted.url, 200), deleted.pending ?? 0)}</p>
        </ConfirmDialog>
      )}
      {stopped && (
        <ConfirmDialog
          isOpen
          onClose={() => setStopped(null)}
          title={strings.offTitle(nameOf(stopped))}
          action={strings.offAction}
          onConfirm={() => enable(stopped, false)}
        >
          <p>{strings.offText(stopped.pending ?? 0)}</p>
        </ConfirmDialog>
      )}
    </Page>
  );
}

interface RowProps {
  webhook: Webhook;
  onTurn: (on: boolean) => void;
  onEdit: () => void;
  onDelete: () => void;
}

function Row({ webhook, onTurn, onEdit, onDelete }: RowProps) {
  const name = nameOf(webhook);
  const path = `/settings/webhooks/${webhook.id}`;
  return (
    <tr>
      <td className={`cut ${styles.name}`}>
        <Link href={path} className="name">
          {name}
        </Link>
      </td>
      <td className={styles.state}>
        <WebhookState webhook={webhook} />
      </td>
      <td className={`only-wide mono muted cut ${styles.address}`} title={plain(webhook.url, 500)}>
        {plain(webhook.url, 200)}
      </td>
      <td className="only-wide muted">
        {webhook.events.length >= EVENTS.length ? strings.allEvents : strings.events(webhook.events.length)}
      </td>
      <td className="right">
        <span className={styles.switch}>
          <Switch isSelected={webhook.enabled} onChange={onTurn} label={strings.switch(name)} />
        </span>
      </td>
      <td className="right">
        <Menu
          label={strings.actionsOf(name)}
          trigger={
            <IconButton label={strings.actionsOf(name)} size="sm">
              <MoreHorizontal />
            </IconButton>
          }
          items={[
            { label: strings.open, icon: <List />, href: path },
            { label: strings.edit, icon: <Pencil />, onAction: onEdit },
            'separator',
            { label: strings.delete, icon: <Trash2 />, danger: true, onAction: onDelete },
          ]}
        />
      </td>
    </tr>
  );
}
