// Makes an agent, or changes one.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { MessageCircle } from 'lucide-react';
import { type ReactNode, useEffect, useEffectEvent, useState } from 'react';
import { useLocation, useParams } from 'wouter';
import { type Agent, agentQuery, createAgent, isApiError, modelsQuery, updateAgent } from '../../api';
import { plainName } from '../../format/plain';
import { curl } from '../../format/snippet';
import { useShortcuts } from '../../shortcuts';
import {
  Button,
  ButtonLink,
  EmptyState,
  ErrorBanner,
  NumberField,
  Page,
  PageHead,
  QueryView,
  Select,
  SkeletonLines,
  Snippets,
  TextField,
  toast,
} from '../../ui';
import { Compatible, chatWith } from '.';
import styles from './agents.module.css';
import { bodyOf, commandOf, type Draft, draftOf, EMPTY, newBodyOf, problemsOf } from './draft';
import { strings } from './strings';
import { Tools } from './tools';

const CRUMBS = [{ label: strings.title, href: '/agents' }];

export default function EditAgent() {
  const { id } = useParams<{ id: string }>();
  return id === 'new' ? <Form key="new" /> : <Known key={id} id={id} />;
}

function Known({ id }: { id: string }) {
  // Fetched for the form once: what one types is not overwritten.
  const query = useQuery({ ...agentQuery(id), staleTime: 0, refetchOnWindowFocus: false });
  if (isApiError(query.error) && query.error.code === 404) {
    return (
      <Page title={strings.title}>
        <PageHead title={strings.title} crumbs={CRUMBS} />
        <EmptyState title={strings.unknownTitle} action={<ButtonLink href="/agents">{strings.back}</ButtonLink>}>
          {strings.unknownText}
        </EmptyState>
      </Page>
    );
  }
  if (query.data && query.isFetchedAfterMount) return <Form key={query.data.updatedAt} agent={query.data} />;
  return (
    <Page title={strings.title}>
      <PageHead title={strings.title} crumbs={CRUMBS} />
      <QueryView query={query} skeleton={<SkeletonLines lines={8} />}>
        {() => null}
      </QueryView>
    </Page>
  );
}

function Form({ agent }: { agent?: Agent }) {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const [draft, setDraft] = useState<Draft>(() => (agent ? draftOf(agent) : EMPTY));
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const change = (part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part }));
  const found = problemsOf(draft);
  // That there is no name is said after one tried; what is there and wrong, at once.
  const problems = new Set([...found].filter((one) => one !== 'name' || tried || draft.name !== ''));

  async function save(): Promise<void> {
    setTried(true);
    if (found.size > 0 || busy) return;
    setBusy(true);
    setError(null);
    try {
      const name = plainName(draft.name.trim(), 60);
      if (agent) {
        await updateAgent(agent.id, bodyOf(draft));
        toast.done(strings.saved(name));
      } else {
        await createAgent(newBodyOf(draft));
        toast.done(strings.made(name));
      }
      void client.invalidateQueries({ queryKey: ['agents'] });
      navigate('/agents');
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  }
  // A number is taken when its field loses the focus, so it is saved after that.
  const [asked, ask] = useState(0);
  const saveAsked = useEffectEvent(() => void save());
  useEffect(() => {
    if (asked > 0) saveAsked();
  }, [asked]);
  function saveNow(): void {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    ask(asked + 1);
  }
  useShortcuts([{ keys: 'mod+enter', label: strings.save, group: strings.title, inFields: true, run: saveNow }]);
  const title = agent ? plainName(agent.name, 80) : strings.newTitle;
  const command = agent ? null : commandOf(draft);
  const snippets = [
    {
      label: strings.api,
      text: agent ? curl('PATCH', `/agents/${agent.id}`, bodyOf(draft)) : curl('POST', '/agents', newBodyOf(draft)),
    },
    ...(command ? [{ label: strings.cli, text: command }] : []),
  ];
  return (
    <Page title={title}>
      <PageHead
        title={title}
        crumbs={CRUMBS}
        actions={
          agent && (
            <ButtonLink href={chatWith(agent)}>
              <MessageCircle />
              {strings.start}
            </ButtonLink>
          )
        }
      />
      <div className={styles.columns}>
        <div className={`card ${styles.form}`}>
          <Basics draft={draft} change={change} problems={problems} />
          <Section title={strings.toolsTitle} text={strings.toolsText}>
            <Tools draft={draft} change={change} problems={problems} />
          </Section>
          <Limits draft={draft} change={change} />
          <Section title={strings.suggestions}>
            <TextField
              label={strings.suggestions}
              hideLabel
              value={draft.suggestions}
              onChange={(suggestions) => change({ suggestions })}
              rows={3}
              hint={strings.suggestionsHint}
              error={problems.has('suggestions') ? strings.suggestionsError : null}
            />
          </Section>
          <footer className={styles.foot}>
            {error !== null && <ErrorBanner error={error} />}
            <span className="row">
              <Button look="primary" onPress={save} isPending={busy}>
                {agent ? strings.save : strings.make}
              </Button>
              <ButtonLink href="/agents">{strings.cancel}</ButtonLink>
            </span>
          </footer>
        </div>
        <aside className={styles.side}>
          <Snippets label={strings.same} snippets={snippets} />
          <Compatible name={draft.name.trim()} />
        </aside>
      </div>
    </Page>
  );
}

interface PartProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
}

function Section({ title, text, children }: { title: string; text?: string; children: ReactNode }) {
  return (
    <section className={styles.section} aria-label={title}>
      <div>
        <h2>{title}</h2>
        {text && <p className="meta">{text}</p>}
      </div>
      {children}
    </section>
  );
}

function Basics({ draft, change, problems }: PartProps & { problems: ReadonlySet<string> }) {
  const models = useQuery(modelsQuery()).data?.models ?? [];
  const usual = models.find((model) => model.default)?.id;
  const options = [
    { id: '', label: strings.modelDefault(usual) },
    ...models.map((model) => ({ id: model.id, label: model.demo ? strings.demo(model.id) : model.id })),
  ];
  // A model that is not listed can be set by the API.
  if (!options.some((one) => one.id === draft.model)) options.push({ id: draft.model, label: draft.model });
  return (
    <Section title={strings.basics}>
      <TextField
        label={strings.name}
        value={draft.name}
        onChange={(name) => change({ name })}
        hint={strings.nameHint}
        error={problems.has('name') ? strings.nameError : null}
        autoComplete="off"
        maxLength={64}
        isRequired
      />
      <TextField
        label={strings.description}
        value={draft.description}
        onChange={(description) => change({ description })}
        hint={strings.descriptionHint}
        error={problems.has('description') ? strings.descriptionError : null}
        autoComplete="off"
      />
      <Select
        label={strings.model}
        value={draft.model}
        onChange={(model: string) => change({ model })}
        options={options}
      />
      <TextField
        label={strings.system}
        value={draft.system}
        onChange={(system) => change({ system })}
        rows={8}
        hint={strings.systemHint}
        error={problems.has('system') ? strings.systemError : null}
      />
    </Section>
  );
}

function Limits({ draft, change }: PartProps) {
  return (
    <Section title={strings.limits}>
      <div className={styles.three}>
        <NumberField
          label={strings.maxSteps}
          value={draft.maxSteps}
          onChange={(maxSteps) => change({ maxSteps })}
          min={1}
          max={500}
          hint={strings.maxStepsHint}
        />
        <NumberField
          label={strings.maxMinutes}
          value={draft.maxMinutes}
          onChange={(maxMinutes) => change({ maxMinutes })}
          min={1}
          max={1440}
          unit="min"
          hint={strings.maxMinutesHint}
        />
        <NumberField
          label={strings.maxCost}
          value={draft.maxCost}
          onChange={(maxCost) => change({ maxCost })}
          min={0}
          max={100_000}
          hint={strings.maxCostHint}
        />
      </div>
    </Section>
  );
}
