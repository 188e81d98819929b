// The team's API keys.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { MoreHorizontal, Pencil, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { type ApiKey, deleteKey, keysQuery } from '../../api';
import { plainName } from '../../format/plain';
import { cli, curl } from '../../format/snippet';
import { relative } from '../../format/time';
import {
  Button,
  ConfirmDialog,
  EmptyState,
  IconButton,
  Menu,
  Page,
  PageHead,
  QueryView,
  SnippetMenu,
  Table,
  Time,
  toast,
} from '../../ui';
import { NewKey, RenameKey } from './dialogs';
import { strings } from './strings';

const maskOf = ({ mask }: ApiKey) => `${mask.prefix}${mask.maskedValuePrefix}…${mask.maskedValueSuffix}`;

export default function Keys() {
  const query = useQuery(keysQuery());
  const client = useQueryClient();
  const [making, setMaking] = useState(false);
  const [renamed, setRenamed] = useState<ApiKey | null>(null);
  const [revoked, setRevoked] = useState<ApiKey | null>(null);
  const refresh = () => void client.invalidateQueries({ queryKey: ['keys'] });

  async function revoke(key: ApiKey): Promise<void> {
    await deleteKey(key.id);
    toast.done(strings.revoked(plainName(key.name, 60)));
    refresh();
  }
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            <SnippetMenu api={curl('GET', '/api-keys')} cli={cli('key', 'ls')} />
            <Button look="primary" onPress={() => setMaking(true)}>
              <Plus />
              {strings.create}
            </Button>
          </>
        }
      >
        {query.data && <span className="meta num">{strings.count(query.data.length)}</span>}
      </PageHead>
      <p className="muted">{strings.text}</p>
      <QueryView query={query}>
        {(keys) =>
          keys.length === 0 ? (
            <EmptyState
              title={strings.emptyTitle}
              action={<Button onPress={() => setMaking(true)}>{strings.create}</Button>}
              command="cabana key create laptop"
            >
              {strings.emptyText}
            </EmptyState>
          ) : (
            <>
              <Table
                label={strings.title}
                columns={[
                  { label: strings.columns.name },
                  { label: strings.columns.key },
                  { label: strings.columns.created, wide: true },
                  { label: strings.columns.used, right: true },
                  { label: strings.columns.actions, hideLabel: true },
                ]}
              >
                {keys.map((key) => (
                  <KeyRow
                    key={key.id}
                    entry={key}
                    isLast={keys.length === 1}
                    onRename={() => setRenamed(key)}
                    onRevoke={() => setRevoked(key)}
                  />
                ))}
              </Table>
              {keys.length === 1 && <p className="meta">{strings.lastNote}</p>}
            </>
          )
        }
      </QueryView>
      {making && <NewKey onClose={() => setMaking(false)} onDone={refresh} />}
      {renamed && <RenameKey entry={renamed} onClose={() => setRenamed(null)} onDone={refresh} />}
      {revoked && (
        <ConfirmDialog
          isOpen
          onClose={() => setRevoked(null)}
          title={strings.revokeTitle(plainName(revoked.name, 60))}
          action={strings.revokeAction(plainName(revoked.name, 30))}
          onConfirm={() => revoke(revoked)}
        >
          <p>{strings.revokeText(maskOf(revoked))}</p>
          <p>{revoked.lastUsed ? strings.usedNow(relative(revoked.lastUsed)) : strings.neverUsed}</p>
        </ConfirmDialog>
      )}
    </Page>
  );
}

interface RowProps {
  entry: ApiKey;
  isLast: boolean;
  onRename: () => void;
  onRevoke: () => void;
}

function KeyRow({ entry, isLast, onRename, onRevoke }: RowProps) {
  const name = plainName(entry.name, 80);
  return (
    <tr>
      <td className="cut" style={{ maxWidth: 260 }} title={name}>
        <span className="name">{name}</span>
      </td>
      <td className="mono muted">{maskOf(entry)}</td>
      <td className="only-wide muted">
        <Time at={entry.createdAt} />
      </td>
      <td className="right muted">{entry.lastUsed ? <Time at={entry.lastUsed} /> : strings.never}</td>
      <td className="right">
        <Menu
          label={strings.actionsOf(name)}
          trigger={
            <IconButton label={strings.actionsOf(name)} size="sm">
              <MoreHorizontal />
            </IconButton>
          }
          items={[
            { label: strings.rename, icon: <Pencil />, onAction: onRename },
            'separator',
            { label: strings.revoke, icon: <Trash2 />, danger: true, disabled: isLast, onAction: onRevoke },
          ]}
        />
      </td>
    </tr>
  );
}
