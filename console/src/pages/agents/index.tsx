// The team's agents.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { MessageCircle, MoreHorizontal, Pencil, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { type Agent, agentsQuery, deleteAgent } from '../../api';
import { plainName } from '../../format/plain';
import { cli, curl } from '../../format/snippet';
import {
  ButtonLink,
  Card,
  ConfirmDialog,
  EmptyState,
  IconButton,
  Link,
  Menu,
  Page,
  PageHead,
  QueryView,
  SnippetMenu,
  Snippets,
  Table,
  Time,
  toast,
} from '../../ui';
import styles from './agents.module.css';
import { clientOf } from './draft';
import { strings } from './strings';

export const chatWith = (agent: Pick<Agent, 'id'>): string => `/chats?agent=${encodeURIComponent(agent.id)}`;

export default function Agents() {
  const client = useQueryClient();
  const query = useQuery(agentsQuery());
  const [deleted, setDeleted] = useState<Agent | null>(null);
  async function remove(agent: Agent): Promise<void> {
    await deleteAgent(agent.id);
    toast.done(strings.deleted(plainName(agent.name, 60)));
    void client.invalidateQueries({ queryKey: ['agents'] });
  }
  const agents = query.data?.agents;
  const name = plainName(deleted?.name ?? '', 60);
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            <SnippetMenu api={curl('GET', '/agents')} cli={cli('agent', 'ls')} />
            <ButtonLink href="/agents/new" look="primary">
              <Plus />
              {strings.create}
            </ButtonLink>
          </>
        }
      >
        {agents && <span className="meta num">{strings.count(agents.length)}</span>}
      </PageHead>
      <p className="muted">{strings.text}</p>
      <QueryView query={query}>
        {(data) =>
          data.agents.length === 0 ? (
            <EmptyState
              title={strings.emptyTitle}
              action={<ButtonLink href="/agents/new">{strings.create}</ButtonLink>}
              command="cabana agent create helper --system-file helper.md"
            >
              {strings.emptyText}
            </EmptyState>
          ) : (
            <Table
              label={strings.title}
              columns={[
                { label: strings.columns.name },
                { label: strings.columns.model, wide: true },
                { label: strings.columns.tools, wide: true },
                { label: strings.columns.changed, right: true, wide: true },
                { label: strings.columns.actions, hideLabel: true },
              ]}
            >
              {data.agents.map((agent) => (
                <AgentRow key={agent.id} agent={agent} onDelete={() => setDeleted(agent)} />
              ))}
            </Table>
          )
        }
      </QueryView>
      <Compatible name={agents?.[0]?.name ?? ''} />
      {deleted && (
        <ConfirmDialog
          isOpen
          onClose={() => setDeleted(null)}
          title={strings.deleteTitle(name)}
          action={strings.deleteAction(name)}
          onConfirm={() => remove(deleted)}
        >
          <p>{strings.deleteText}</p>
        </ConfirmDialog>
      )}
    </Page>
  );
}

/** How programs talk to an agent. */
export function Compatible({ name }: { name: string }) {
  const body = { model: `agent/${name || 'NAME'}`, messages: [{ role: 'user', content: 'Hello' }] };
  const text = curl('POST', '/v1/chat/completions', body).replace('X-API-KEY: ', 'Authorization: Bearer ');
  return (
    <Card title={strings.openai} className={styles.card}>
      <p className="muted">{strings.openaiText}</p>
      <Snippets
        label={strings.openai}
        snippets={[
          { label: strings.python, text: clientOf(location.origin, name) },
          { label: strings.curl, text },
        ]}
      />
    </Card>
  );
}

function AgentRow({ agent, onDelete }: { agent: Agent; onDelete: () => void }) {
  const name = plainName(agent.name, 80);
  const functions = agent.tools.filter((tool) => tool.type === 'function').length;
  const tools = [
    ...agent.tools.flatMap((tool) => strings.tools[tool.type] ?? []),
    ...(functions > 0 ? [strings.functions(functions)] : []),
  ];
  return (
    <tr>
      <td className={styles.name}>
        <Link href={`/agents/${agent.id}`} className="name cut">
          {name}
        </Link>
        {agent.description && (
          <span className={`meta cut ${styles.description}`}>{plainName(agent.description, 200)}</span>
        )}
      </td>
      <td className="only-wide muted cut">
        {agent.model ? <span className="mono">{plainName(agent.model, 60)}</span> : strings.defaultModel}
      </td>
      <td className="only-wide muted">{tools.join(', ') || strings.noTools}</td>
      <td className="only-wide right muted">
        <Time at={agent.updatedAt} />
      </td>
      <td className="right">
        <span className={styles.acts}>
          <ButtonLink href={chatWith(agent)} size="sm">
            <MessageCircle />
            <span className="only-wide">{strings.start}</span>
            <span className="only-small">{strings.startShort}</span>
            <span className="sr">: {name}</span>
          </ButtonLink>
          <Menu
            label={strings.actionsOf(name)}
            trigger={
              <IconButton label={strings.actionsOf(name)} size="sm">
                <MoreHorizontal />
              </IconButton>
            }
            items={[
              { label: strings.edit, icon: <Pencil />, href: `/agents/${agent.id}` },
              'separator',
              { label: strings.delete, icon: <Trash2 />, danger: true, onAction: onDelete },
            ]}
          />
        </span>
      </td>
    </tr>
  );
}
