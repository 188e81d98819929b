// The builds of a template, newest first, with the tags that name them.
import { CircleStop, Copy, MoreHorizontal, RotateCcw, ScrollText, Tag } from 'lucide-react';
import { useState } from 'react';
import { cancelBuild, type TemplateWithBuilds } from '../../api';
import { mib } from '../../format/size';
import { duration } from '../../format/time';
import { ConfirmDialog, copyText, IconButton, Link, Menu, type MenuEntry, Since, Table, Time, toast } from '../../ui';
import { BuildState, isOpen } from '../templates/state';
import { strings } from './strings';
import { TagDialog } from './tag-dialog';
import styles from './template.module.css';
import { shortBuild, type Tags } from './use-tags';

const MOST = 200;

interface Props {
  template: TemplateWithBuilds;
  name: string;
  tags: Tags;
  onChanged: () => void;
}

export function Builds({ template, name, tags, onChanged }: Props) {
  const [tagged, setTagged] = useState<string | null>(null);
  const [cancelled, setCancelled] = useState<string | null>(null);
  const builds = template.builds.slice(0, MOST);
  const current = [...tags.byBuild].find(([, names]) => names.includes('default'))?.[0];
  const currentAt = builds.find((one) => one.buildID === current)?.createdAt ?? '';

  function release(buildID: string): void {
    tags.move('default', buildID).catch((error) => toast.failed(strings.moveFailed('default'), error));
  }
  function actions(build: (typeof builds)[number]): MenuEntry[] {
    const isReady = build.status === 'ready';
    const older = build.createdAt < currentAt;
    return [
      {
        label: strings.seeLog,
        icon: <ScrollText />,
        href: `/templates/${template.templateID}/builds/${build.buildID}`,
      },
      { label: strings.copyName, icon: <Copy />, onAction: () => void copyText(`${name}:${build.buildID}`) },
      ...(isReady && build.buildID !== current
        ? [
            {
              label: older ? strings.rollBack : strings.release,
              icon: <RotateCcw />,
              onAction: () => release(build.buildID),
            },
          ]
        : []),
      ...(isReady ? [{ label: strings.tag, icon: <Tag />, onAction: () => setTagged(build.buildID) }] : []),
      ...(isOpen(build.status)
        ? [
            'separator' as const,
            {
              label: strings.cancel,
              icon: <CircleStop />,
              danger: true,
              onAction: () => setCancelled(build.buildID),
            },
          ]
        : []),
    ];
  }
  return (
    <>
      <Table
        label={strings.builds}
        columns={[
          { label: strings.columns.build },
          { label: strings.columns.state },
          { label: strings.columns.tags },
          { label: strings.columns.size, wide: true },
          { label: strings.columns.took, wide: true, right: true },
          { label: strings.columns.made, wide: true, right: true },
          { label: strings.columns.actions, hideLabel: true },
        ]}
      >
        {builds.map((build) => (
          <tr key={build.buildID}>
            <td>
              <Link href={`/templates/${template.templateID}/builds/${build.buildID}`} className="name mono">
                {shortBuild(build.buildID)}
              </Link>
            </td>
            <td>
              <BuildState status={build.status} />
            </td>
            <td>
              <span className={styles.chips}>
                {(tags.byBuild.get(build.buildID) ?? []).map((tag) => (
                  <span key={tag} className={tag === 'default' ? 'badge mono accent' : 'badge mono line'}>
                    {tag}
                  </span>
                ))}
              </span>
            </td>
            <td className="only-wide muted">
              {strings.sizeOf(build.cpuCount, mib(build.memoryMB), mib(build.diskSizeMB))}
            </td>
            <td className="only-wide right muted">
              {build.finishedAt ? (
                duration((Date.parse(build.finishedAt) - Date.parse(build.createdAt)) / 1000)
              ) : isOpen(build.status) ? (
                <Since at={build.createdAt} />
              ) : (
                '–'
              )}
            </td>
            <td className="only-wide right muted">
              <Time at={build.createdAt} />
            </td>
            <td className="right">
              <Menu
                label={strings.actionsOf(shortBuild(build.buildID))}
                trigger={
                  <IconButton label={strings.actionsOf(shortBuild(build.buildID))} size="sm">
                    <MoreHorizontal />
                  </IconButton>
                }
                items={actions(build)}
              />
            </td>
          </tr>
        ))}
      </Table>
      {tagged && (
        <TagDialog build={tagged} builds={template.builds} onMove={tags.move} onClose={() => setTagged(null)} />
      )}
      {cancelled && (
        <ConfirmDialog
          isOpen
          onClose={() => setCancelled(null)}
          title={strings.cancelTitle(shortBuild(cancelled))}
          action={strings.cancelAction}
          onConfirm={() => cancelBuild(template.templateID, cancelled).then(onChanged)}
        >
          <p>{strings.cancelText}</p>
        </ConfirmDialog>
      )}
    </>
  );
}
