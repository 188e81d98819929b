// What a template is, and what one can change about it.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { sandboxesQuery, type TemplateUpdate, type TemplateWithBuilds, updateTemplate } from '../../api';
import { plain, plainName } from '../../format/plain';
import { sandboxName } from '../../format/sandbox';
import { mib } from '../../format/size';
import { Card, DataList, Id, Link, SandboxState, Select, Switch, Time, toast } from '../../ui';
import { sourceOf } from '../templates/build';
import { strings } from './strings';
import styles from './template.module.css';

type Preset = keyof typeof strings.networks;

export function SettingsCard({ template, name }: { template: TemplateWithBuilds; name: string }) {
  const client = useQueryClient();
  const source = sourceOf(template.templateID);
  async function change(update: TemplateUpdate, said: string): Promise<void> {
    try {
      await updateTemplate(template.templateID, update);
      toast.done(said);
    } catch (error) {
      toast.failed(strings.changeFailed, error);
    }
    void client.invalidateQueries({ queryKey: ['template', template.templateID] });
    void client.invalidateQueries({ queryKey: ['templates'] });
  }
  const preset = (template.network ?? '') as Preset;
  return (
    <Card title={strings.settings}>
      <div className="stack">
        <DataList
          items={[
            [strings.size, strings.sizeOf(template.cpuCount, mib(template.memoryMB), mib(template.diskSizeMB))],
            [strings.start, source?.startCmd && <code key="start">{plain(source.startCmd, 200)}</code>],
            [strings.ready, source?.readyCmd && <code key="ready">{plain(source.readyCmd, 200)}</code>],
            [strings.made, <Time key="made" at={template.createdAt} />],
            [strings.changed, <Time key="changed" at={template.updatedAt} />],
            [strings.lastUsed, template.lastSpawnedAt && <Time key="last" at={template.lastSpawnedAt} />],
            [strings.names, template.names.map((one) => plainName(one)).join(', ')],
            [strings.id, <Id key="id" id={template.templateID} full />],
          ]}
        />
        <Select<Preset>
          label={strings.network}
          value={preset in strings.networks ? preset : ''}
          onChange={(network) => void change({ network }, strings.networkSet)}
          options={(Object.keys(strings.networks) as Preset[]).map((id) => ({ id, label: strings.networks[id] }))}
          hint={strings.networkHint}
        />
        <div>
          <Switch
            isSelected={template.public}
            onChange={(on) => void change({ public: on }, on ? strings.nowPublic(name) : strings.nowPrivate(name))}
          >
            {strings.visibility}
          </Switch>
          <p className="meta">{strings.visibilityText}</p>
        </div>
      </div>
    </Card>
  );
}

/** Which sandboxes are of it now. */
export function UsedBy({ template, name }: { template: TemplateWithBuilds; name: string }) {
  const query = useQuery(sandboxesQuery());
  const rows = query.data?.items.filter((row) => row.templateID === template.templateID);
  const list = `/sandboxes?template=${encodeURIComponent(name)}`;
  return (
    <Card
      title={strings.sandboxes}
      flush
      className="clip"
      actions={rows && rows.length > 0 && <Link href={list}>{strings.all}</Link>}
    >
      {rows && rows.length > 0 && (
        <ul className={styles.used}>
          {rows.slice(0, 5).map((row) => (
            <li key={row.sandboxID}>
              <Link href={`/sandboxes/${row.sandboxID}`} className="name cut">
                {plainName(sandboxName(row), 60)}
              </Link>
              <span className="grow" />
              <SandboxState sandbox={row} />
            </li>
          ))}
        </ul>
      )}
      <p className={`meta ${styles.tagsText}`}>{strings.counts(rows?.length ?? 0, template.spawnCount)}</p>
    </Card>
  );
}
