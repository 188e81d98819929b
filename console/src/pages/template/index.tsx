// One template: its builds and tags, what it is like, and who uses it.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { MoreHorizontal, Play, RotateCcw, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useLocation, useParams } from 'wouter';
import { deleteTemplate, isApiError, sandboxesQuery, templateQuery, templatesQuery } from '../../api';
import { cli, curl } from '../../format/snippet';
import {
  Button,
  ButtonLink,
  ConfirmDialog,
  EmptyState,
  IconButton,
  Menu,
  Page,
  PageHead,
  QueryView,
  SnippetMenu,
  toast,
} from '../../ui';
import { Again } from '../templates/again';
import { createHref, nameOf } from '../templates/mine';
import { Builds } from './builds';
import { SettingsCard, UsedBy } from './settings-card';
import { strings } from './strings';
import { TagsCard } from './tags-card';
import styles from './template.module.css';
import { useTags } from './use-tags';

export default function Template() {
  const { id = '' } = useParams();
  const query = useQuery(templateQuery(id));
  const template = query.data;
  const templates = useQuery(templatesQuery()).data?.items ?? [];
  const sandboxes = useQuery(sandboxesQuery()).data?.items ?? [];
  const name = template ? nameOf(template) : id;
  const ref = template?.aliases[0] ?? id;
  const tags = useTags(id, ref);
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [again, setAgain] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const isBase = template?.aliases.includes('base') ?? false;
  const used = sandboxes.filter((row) => row.templateID === template?.templateID).length;

  async function remove(): Promise<void> {
    await deleteTemplate(id);
    toast.done(strings.deleted(name));
    navigate('/templates');
    void client.invalidateQueries({ queryKey: ['templates'] });
  }
  if (isApiError(query.error, 'template_not_found') && !template) {
    return (
      <Page title={strings.gone}>
        <PageHead title={strings.gone} crumbs={[{ label: strings.templates, href: '/templates' }]} />
        <EmptyState title={strings.gone} action={<ButtonLink href="/templates">{strings.toTemplates}</ButtonLink>}>
          {strings.goneText}
        </EmptyState>
      </Page>
    );
  }
  return (
    <Page title={name}>
      <PageHead
        title={<span className={styles.title}>{name}</span>}
        crumbs={[{ label: strings.templates, href: '/templates' }]}
        actions={
          template && (
            <>
              <SnippetMenu api={curl('GET', `/templates/${ref}`)} cli={cli('create', '--template', ref)} />
              {!isBase && (
                <span className="only-wide">
                  <Button onPress={() => setAgain(true)}>
                    <RotateCcw />
                    {strings.rebuild}
                  </Button>
                </span>
              )}
              {!isBase && (
                <Menu
                  label={strings.more}
                  trigger={
                    <IconButton label={strings.more} look="plain">
                      <MoreHorizontal />
                    </IconButton>
                  }
                  items={[
                    { label: strings.rebuild, icon: <RotateCcw />, onAction: () => setAgain(true) },
                    'separator',
                    { label: `${strings.delete}…`, icon: <Trash2 />, danger: true, onAction: () => setDeleting(true) },
                  ]}
                />
              )}
              {template.buildStatus === 'ready' && (
                <ButtonLink look="primary" href={createHref(template)}>
                  <Play />
                  {strings.use}
                </ButtonLink>
              )}
            </>
          )
        }
      >
        {template?.public && <span className="badge line">{strings.public}</span>}
      </PageHead>
      <QueryView query={query}>
        {(data) => (
          <div className={styles.columns}>
            <section className="stack" aria-label={strings.builds}>
              <div className="row">
                <h2>{strings.builds}</h2>
                <span className="n">{data.builds.length}</span>
              </div>
              <Builds template={data} name={ref} tags={tags} onChanged={() => void query.refetch()} />
              <p className="meta">{isBase ? strings.baseNote : strings.kept}</p>
            </section>
            <div className="stack">
              <TagsCard name={ref} tags={tags} builds={data.builds} fixed={isBase} />
              <UsedBy template={data} name={ref} />
              <SettingsCard template={data} name={name} />
            </div>
          </div>
        )}
      </QueryView>
      {again && template && <Again template={template} templates={templates} onClose={() => setAgain(false)} />}
      <ConfirmDialog
        isOpen={deleting}
        onClose={() => setDeleting(false)}
        title={strings.deleteTitle(name)}
        action={strings.deleteAction(name)}
        onConfirm={remove}
        typed={template && template.builds.length > 1 ? ref : undefined}
      >
        <p>{strings.deleteText(template?.builds.length ?? 0, tags.groups.length)}</p>
        {used > 0 && <p>{strings.inUse(used)}</p>}
      </ConfirmDialog>
    </Page>
  );
}
