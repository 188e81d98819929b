// The tags of a template: which build each names, since when, and the way back.
import { ArrowRightLeft, MoreHorizontal, RotateCcw, Trash2 } from 'lucide-react';
import { useState } from 'react';
import type { TagGroup, TemplateBuild } from '../../api';
import { plainName } from '../../format/plain';
import { relative } from '../../format/time';
import { Card, ConfirmDialog, ErrorBanner, IconButton, Menu, Time, toast } from '../../ui';
import { strings } from './strings';
import { TagDialog } from './tag-dialog';
import styles from './template.module.css';
import { shortBuild, type Tags } from './use-tags';

interface Props {
  name: string;
  tags: Tags;
  builds: readonly TemplateBuild[];
  /** The server's own template cannot be changed. */
  fixed: boolean;
}

export function TagsCard({ name, tags, builds, fixed }: Props) {
  const [moved, setMoved] = useState<string | null>(null);
  const [removed, setRemoved] = useState<string | null>(null);
  const isReady = (id: string) => builds.some((one) => one.buildID === id && one.status === 'ready');

  /** Builds that the tag named before and that are still there, each once. */
  function earlier({ assignments }: TagGroup): string[] {
    const now = assignments[0]?.buildId;
    return [...new Set(assignments.map((one) => one.buildId))].filter((id) => id !== now && isReady(id)).slice(0, 5);
  }
  function items(group: TagGroup) {
    const back = earlier(group).map((id) => ({
      id,
      label: strings.goBack(shortBuild(id), relative(builds.find((one) => one.buildID === id)?.createdAt ?? '')),
      icon: <RotateCcw />,
      onAction: () => {
        tags.move(group.tag, id).catch((error) => toast.failed(strings.moveFailed(group.tag), error));
      },
    }));
    return [
      ...(back.length > 0 ? [{ heading: strings.before(group.tag), items: back }] : []),
      { label: strings.move, icon: <ArrowRightLeft />, onAction: () => setMoved(group.tag) },
      ...(group.tag === 'default'
        ? []
        : [
            {
              label: strings.remove(group.tag),
              icon: <Trash2 />,
              danger: true,
              onAction: () => setRemoved(group.tag),
            },
          ]),
    ];
  }
  return (
    <Card title={strings.tags} flush>
      {tags.error ? <ErrorBanner error={tags.error} /> : null}
      <ul className={styles.tags}>
        {tags.groups.map((group) => (
          <li key={group.tag}>
            <span className={group.tag === 'default' ? 'badge mono accent' : 'badge mono line'}>
              {plainName(group.tag, 40)}
            </span>
            <span className="mono muted">{shortBuild(group.assignments[0]?.buildId ?? '')}</span>
            <span className="grow" />
            <Time at={group.assignments[0]?.assignedAt} className="meta" />
            {!fixed && (
              <Menu
                label={strings.tagActions(group.tag)}
                trigger={
                  <IconButton label={strings.tagActions(group.tag)} size="sm">
                    <MoreHorizontal />
                  </IconButton>
                }
                items={items(group)}
              />
            )}
          </li>
        ))}
      </ul>
      <p className={`meta ${styles.tagsText}`}>{strings.tagsText}</p>
      {moved && <TagDialog tag={moved} builds={builds} onMove={tags.move} onClose={() => setMoved(null)} />}
      {removed && (
        <ConfirmDialog
          isOpen
          onClose={() => setRemoved(null)}
          title={strings.removeTitle(removed)}
          action={strings.removeAction(removed)}
          onConfirm={() => tags.remove(removed)}
        >
          <p>{strings.removeText(name, removed)}</p>
        </ConfirmDialog>
      )}
    </Card>
  );
}
