// Models, and the providers that they come from: those of the server, and those of the team.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { deleteProvider, type ModelProvider, modelsQuery, providersQuery } from '../../api';
import { plainName } from '../../format/plain';
import { cli, curl } from '../../format/snippet';
import {
  Button,
  Card,
  ConfirmDialog,
  EmptyState,
  Page,
  PageHead,
  QueryView,
  SnippetMenu,
  Snippets,
  toast,
} from '../../ui';
import { EMPTY, tomlOf, variableOf } from './draft';
import { commandOf, ProviderForm } from './form';
import { ModelList, ProviderList } from './lists';
import styles from './models.module.css';
import { strings } from './strings';

const LOCAL = tomlOf({
  name: 'local',
  kind: 'openai',
  baseUrl: 'http://127.0.0.1:11434/v1',
  key: '',
  models: 'qwen3:8b',
});

export default function Models() {
  const client = useQueryClient();
  const models = useQuery(modelsQuery());
  const providers = useQuery(providersQuery());
  const [form, setForm] = useState<{ provider?: ModelProvider } | null>(null);
  const [deleted, setDeleted] = useState<ModelProvider | null>(null);
  function refresh(): void {
    void client.invalidateQueries({ queryKey: ['providers'] });
    void client.invalidateQueries({ queryKey: ['models'] });
  }
  async function remove(provider: ModelProvider): Promise<void> {
    await deleteProvider(provider.name);
    toast.done(strings.deleted(plainName(provider.name, 40)));
    refresh();
  }
  const namesOf = (scope: ModelProvider['scope']) =>
    (providers.data?.providers ?? []).filter((one) => one.scope === scope).map((one) => one.name);
  const name = plainName(deleted?.name ?? '', 40);
  return (
    <Page title={strings.title}>
      <PageHead
        title={strings.title}
        actions={
          <>
            <SnippetMenu api={curl('GET', '/models')} cli={cli('model', 'ls')} />
            <Button look="primary" onPress={() => setForm({})}>
              <Plus />
              {strings.add}
            </Button>
          </>
        }
      />
      <p className="muted">{strings.text}</p>
      <section className={styles.part} aria-labelledby="providers">
        <h2 id="providers">{strings.providers}</h2>
        <QueryView query={providers}>
          {(data) =>
            data.providers.length === 0 ? (
              <EmptyState
                title={strings.emptyTitle}
                action={<Button onPress={() => setForm({})}>{strings.add}</Button>}
                command={commandOf(EMPTY)}
              >
                {strings.emptyText}
              </EmptyState>
            ) : (
              <ProviderList
                providers={data.providers}
                onChange={(provider) => setForm({ provider })}
                onDelete={setDeleted}
              />
            )
          }
        </QueryView>
      </section>
      <section className={styles.part} aria-labelledby="models">
        <h2 id="models">{strings.models}</h2>
        <QueryView query={models}>{(data) => <ModelList models={data.models} />}</QueryView>
      </section>
      <Card title={strings.server} className={styles.server}>
        <p className="muted">{strings.serverText}</p>
        <Snippets
          label={strings.serverLabel}
          snippets={[
            {
              label: strings.environment,
              text: `${variableOf('anthropic')}=sk-ant-…\nCABANA_MODELS_DEFAULT=anthropic/MODEL`,
            },
            { label: strings.toml, text: `[models]\ndefault = "local/qwen3:8b"\n\n${LOCAL}` },
            { label: strings.cli, text: commandOf(EMPTY) },
            {
              label: strings.api,
              text: curl('POST', '/model-providers', { name: 'anthropic', kind: 'anthropic', key: '…' }),
            },
          ]}
        />
      </Card>
      {form && (
        <ProviderForm
          provider={form.provider}
          taken={namesOf('team')}
          servers={namesOf('server')}
          onClose={() => setForm(null)}
          onDone={refresh}
        />
      )}
      {deleted && (
        <ConfirmDialog
          isOpen
          onClose={() => setDeleted(null)}
          title={strings.deleteTitle(name)}
          action={strings.deleteAction(name)}
          onConfirm={() => remove(deleted)}
        >
          <p>{strings.deleteText(name)}</p>
        </ConfirmDialog>
      )}
    </Page>
  );
}
