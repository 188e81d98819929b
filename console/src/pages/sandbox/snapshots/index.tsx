import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Camera, Ellipsis, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { deleteSnapshot, listSnapshots, type Page, type SnapshotInfo, snapshotsQuery } from '../../../api';
import { plainName } from '../../../format/plain';
import { cli, curl } from '../../../format/snippet';
import {
  Button,
  ButtonLink,
  ConfirmDialog,
  EmptyState,
  IconButton,
  Menu,
  SkeletonRows,
  SnippetMenu,
  Snippets,
  Table,
  Time,
  toast,
} from '../../../ui';
import { Dialogs } from '../dialogs';
import styles from '../sandbox.module.css';
import { strings } from '../strings';
import type { TabProps } from '../tab';
import { TabQuery } from '../tab-query';
import { useSmall } from '../use-small';
import local from './snapshots.module.css';

const words = strings.snapshots;

/** Its name, without the tag that all have; else its id. */
export function snapshotName(snapshot: SnapshotInfo): string {
  const name = snapshot.names[0] ?? snapshot.snapshotID;
  return plainName(name.replace(/^[^/]*\//, '').replace(/:default$/, ''), 100);
}

/** What identifies it as a template, without the tag. */
const templateOf = (snapshot: SnapshotInfo): string => snapshot.snapshotID.replace(/:default$/, '');

export default function Snapshots({ sandbox }: TabProps) {
  const [open, setOpen] = useState(false);
  const id = sandbox.sandboxID;
  const take = sandbox.phase !== 'archived' && sandbox.phase !== 'recycled';
  return (
    <div className={styles.panel}>
      <div className="row">
        <span className="grow" />
        <SnippetMenu api={curl('GET', `/snapshots?sandboxID=${id}`)} cli={cli('snapshot', 'ls')} />
        {take && (
          <Button onPress={() => setOpen(true)}>
            <Camera />
            {words.take}
          </Button>
        )}
      </div>
      <SnapshotList id={id} onTake={take ? () => setOpen(true) : undefined} />
      <Dialogs open={open ? 'snapshot' : null} sandbox={sandbox} onClose={() => setOpen(false)} />
    </div>
  );
}

/** `quiet`: nothing is shown where there are none. */
export function SnapshotList({ id, onTake, quiet }: { id: string; onTake?: () => void; quiet?: boolean }) {
  const query = useQuery(snapshotsQuery({ sandboxID: id }));
  const client = useQueryClient();
  const [doomed, setDoomed] = useState<SnapshotInfo | null>(null);
  const [more, setMore] = useState<Page<SnapshotInfo> | null>(null);
  const [busy, setBusy] = useState(false);
  if (quiet && !query.data?.items.length) return null;

  async function next(token: string): Promise<void> {
    setBusy(true);
    try {
      const page = await listSnapshots({ sandboxID: id, nextToken: token });
      setMore({ items: [...(more?.items ?? []), ...page.items], next: page.next });
    } catch (error) {
      toast.failed(words.more, error);
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      <TabQuery id={id} query={query} skeleton={<SkeletonRows rows={3} />}>
        {(first) => {
          const seen = new Set(first.items.map((one) => one.snapshotID));
          const items = [...first.items, ...(more?.items.filter((one) => !seen.has(one.snapshotID)) ?? [])];
          const token = more ? more.next : first.next;
          if (items.length === 0) {
            return (
              <EmptyState
                title={words.empty}
                action={onTake && <Button onPress={onTake}>{words.take}</Button>}
                command={cli('snapshot', 'create', id)}
              >
                {words.emptyText}
              </EmptyState>
            );
          }
          return (
            <>
              <Table
                label={strings.tabs.snapshots}
                columns={[
                  { label: words.name },
                  { label: words.taken },
                  { label: words.memory, wide: true },
                  { label: words.act, right: true, hideLabel: true },
                ]}
              >
                {items.map((snapshot) => (
                  <tr key={snapshot.snapshotID}>
                    <td className={`mono ${local.name}`}>{snapshotName(snapshot)}</td>
                    <td>
                      <Time at={snapshot.createdAt} />
                    </td>
                    <td className="only-wide muted">{snapshot.memory ? words.diskMemory : words.disk}</td>
                    <td className="right">
                      <Acts snapshot={snapshot} onDelete={() => setDoomed(snapshot)} />
                    </td>
                  </tr>
                ))}
              </Table>
              {token && (
                <div>
                  <Button onPress={() => void next(token)} isPending={busy}>
                    {words.more}
                  </Button>
                </div>
              )}
            </>
          );
        }}
      </TabQuery>
      {doomed && (
        <ConfirmDialog
          isOpen
          onClose={() => setDoomed(null)}
          title={words.deleteTitle(snapshotName(doomed))}
          action={words.deleteAct(snapshotName(doomed))}
          onConfirm={async () => {
            await deleteSnapshot(doomed.snapshotID);
            toast.done(words.deleted(snapshotName(doomed)));
            setMore(null);
            await client.invalidateQueries({ queryKey: ['snapshots'] });
          }}
        >
          <p>{words.deleteLost}</p>
          <p>{words.deleteKept}</p>
          <Snippets
            label={strings.same}
            snippets={[
              { label: 'CLI', text: cli('snapshot', 'rm', templateOf(doomed)) },
              { label: 'API', text: curl('DELETE', `/templates/${encodeURIComponent(doomed.snapshotID)}`) },
            ]}
          />
        </ConfirmDialog>
      )}
    </>
  );
}

function Acts({ snapshot, onDelete }: { snapshot: SnapshotInfo; onDelete: () => void }) {
  const small = useSmall();
  const name = snapshotName(snapshot);
  const href = `/create?${new URLSearchParams({ template: templateOf(snapshot) })}`;
  if (small) {
    return (
      <Menu
        label={`${words.act}: ${name}`}
        trigger={
          <IconButton label={`${words.act}: ${name}`}>
            <Ellipsis />
          </IconButton>
        }
        items={[
          { label: words.create, icon: <Plus />, href },
          { label: `${words.delete}…`, icon: <Trash2 />, danger: true, onAction: onDelete },
        ]}
      />
    );
  }
  return (
    <span className={local.acts}>
      <ButtonLink href={href} size="sm">
        <Plus />
        {words.create}
      </ButtonLink>
      <Button size="sm" look="quiet" onPress={onDelete} aria-label={`${words.delete} ${name}`}>
        {words.delete}
      </Button>
    </span>
  );
}
