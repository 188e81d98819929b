// Creates a sandbox: GPU, image, configuration. The step is in the URL, the draft in this tab's storage.
import { useQuery } from '@tanstack/react-query';
import { Check } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useLocation, useSearchParams } from 'wouter';
import { isApiError, quotaQuery, statusQuery, templatesQuery } from '../../api';
import { duration } from '../../format/time';
import { useShortcuts } from '../../shortcuts';
import { Dock, ErrorBanner, messageOf, Page, PageHead, toast } from '../../ui';
import { type Field, fieldOf, type Problems, problemsOf, stepOf } from './checks';
import { ConfigStep } from './config';
import styles from './create.module.css';
import { type Draft, fromQuery, fromStored, requestOf, STEPS, type Step, toStored } from './draft';
import { BuildFailed } from './follow';
import { GpuStep } from './gpu';
import { aliasOf, ImageStep, isNamed } from './image';
import { templateNameOf } from './image-name';
import { Progress } from './progress';
import { strings } from './strings';
import { Summary, SummaryBar } from './summary';
import { useCreate } from './use-create';

const STORED = 'cabana.create';

function stored(): Draft {
  try {
    return fromStored(sessionStorage.getItem(STORED));
  } catch {
    return fromStored(null);
  }
}

function store(draft: Draft | null): void {
  try {
    if (draft) sessionStorage.setItem(STORED, toStored(draft));
    else sessionStorage.removeItem(STORED);
  } catch {
    // Without storage the draft lives as long as the page.
  }
}

export default function Create() {
  const [, navigate] = useLocation();
  const [query, setQuery] = useSearchParams();
  const [draft, setDraft] = useState<Draft>(() => fromQuery(query) ?? stored());
  const [files, setFiles] = useState<File[]>([]);
  const [said, setSaid] = useState<Problems>({});
  const [tried, setTried] = useState(false);
  const password = useRef<HTMLInputElement>(null);
  const templates = useQuery(templatesQuery());
  const quota = useQuery(quotaQuery());
  const status = useQuery(statusQuery());
  const creation = useCreate();

  const given = query.get('step');
  const step: Step = STEPS.find((one) => one === given) ?? 'gpu';
  const next = STEPS[STEPS.indexOf(step) + 1] ?? null;
  const go = (to: Step) => setQuery({ step: to });
  function change(part: Partial<Draft>): void {
    setDraft((old) => ({ ...old, ...part }));
    const names: Record<string, Field> = {
      allow: 'network',
      unit: 'timeout',
      keepMemory: 'autoResume',
      onTimeout: 'autoResume',
    };
    setSaid((old) => {
      const left = { ...old };
      for (const name of Object.keys(part)) delete left[names[name] ?? (name as Field)];
      return left;
    });
  }
  useEffect(() => store(draft), [draft]);

  // The first template of the server is chosen, so that one can create at once.
  const list = templates.data?.items;
  useEffect(() => {
    if (!list) return;
    const first = list.find((one) => one.aliases.includes('base')) ?? list.find((one) => one.buildStatus === 'ready');
    setDraft((old) => (old.template || !first ? old : { ...old, template: aliasOf(first) }));
  }, [list]);

  const isImage = draft.source === 'image';
  const template = isImage ? undefined : list?.find((one) => isNamed(one, draft.template));
  const bodyFor = (id: string) => requestOf(draft, id, template);
  const body = bodyFor(isImage ? templateNameOf(draft.image.trim()) : draft.template);
  const found = useMemo(() => problemsOf(draft, { hours: quota.data?.limit.maxLengthHours }), [draft, quota.data]);
  // What is missing is said after one tried; what is there and wrong, at once.
  const { template: noTemplate, image, ...wrong } = found;
  const problems: Problems = { ...said, ...wrong, ...(tried ? { template: noTemplate, image } : {}) };

  function show(field: Field): void {
    if (stepOf(field) !== step) go(stepOf(field));
  }

  async function create(): Promise<void> {
    setTried(true);
    setSaid({});
    const [first] = Object.keys(found) as Field[];
    if (first) return show(first);
    const name = draft.name.trim();
    try {
      const { sandbox, seconds } = await creation.start({
        name: name || strings.run.aSandbox,
        image: isImage ? draft.image.trim() : null,
        user: draft.user.trim(),
        takePassword: () => {
          const value = password.current?.value ?? '';
          if (password.current) password.current.value = '';
          return value;
        },
        body: bodyFor,
        template: draft.template,
        files,
      });
      store(null);
      toast.done(strings.run.up(name || sandbox.alias || sandbox.sandboxID), {
        text: strings.run.upIn(duration(seconds)),
      });
      navigate(`/sandboxes/${sandbox.sandboxID}/terminal`);
    } catch (error) {
      const known = isApiError(error) || error instanceof BuildFailed ? error : null;
      const field = known && fieldOf(known, draft.source);
      if (!field) return;
      // The field says which it is.
      setSaid({ [field]: messageOf(error).replace(/^(cpuCount|memoryMB|diskSizeMB|idleTimeout) must/i, 'Must') });
      if (error instanceof BuildFailed) return;
      creation.close();
      show(field);
    }
  }
  function back(): void {
    creation.close();
    const [first] = Object.keys(said) as Field[];
    if (first) show(first);
  }
  const isBusy = creation.run !== null && creation.run.error === null;
  useShortcuts([
    {
      keys: 'mod+enter',
      label: strings.summary.createNow,
      group: strings.title,
      inFields: true,
      run: () => !isBusy && void create(),
    },
  ]);

  const summary = {
    draft,
    body,
    template,
    quota: quota.data,
    files,
    problems: found,
    next,
    isBusy,
    onNext: () => next && go(next),
    onCreate: () => void create(),
  };
  return (
    <Page title={strings.title}>
      <PageHead title={strings.title}>
        <Steps step={step} onStep={go} />
      </PageHead>
      {quota.error && <ErrorBanner error={quota.error} onRetry={() => void quota.refetch()} />}
      <div className={styles.grid}>
        <div className="stack">
          {creation.run && (
            <Progress run={creation.run} onCancel={creation.cancel} onBack={back} onAgain={() => void create()} />
          )}
          {/* Hidden and not gone: the field of the password keeps what was typed until that is read. */}
          <div hidden={creation.run !== null}>
            {step === 'gpu' && <GpuStep />}
            {(step === 'image' || isImage) && (
              <div hidden={step !== 'image'}>
                <ImageStep
                  draft={draft}
                  change={change}
                  problems={problems}
                  templates={templates}
                  password={password}
                />
              </div>
            )}
            {step === 'config' && (
              <ConfigStep
                draft={draft}
                change={change}
                problems={problems}
                template={template}
                quota={quota.data}
                canKeepMemory={status.data?.capabilities?.pauseMemory !== false}
                files={files}
                onFiles={setFiles}
              />
            )}
          </div>
        </div>
        <aside className={styles.side} aria-label={strings.summary.title}>
          <Summary {...summary} />
        </aside>
      </div>
      <Dock>
        <SummaryBar {...summary} />
      </Dock>
    </Page>
  );
}

function Steps({ step, onStep }: { step: Step; onStep: (step: Step) => void }) {
  const at = STEPS.indexOf(step);
  return (
    <ol className={`steps ${styles.steps}`} aria-label={strings.stepsLabel}>
      {STEPS.map((one, i) => (
        <li key={one} className={i < at ? 'done' : undefined} aria-current={one === step ? 'step' : undefined}>
          <button type="button" className={styles.step} onClick={() => onStep(one)}>
            <span className="no">{i < at ? <Check /> : i + 1}</span>
            <span className={one === step ? undefined : 'only-wide'}>
              {one === 'gpu' && i < at ? strings.gpuNone : strings.steps[one]}
            </span>
            {one !== step && <span className="sr only-small">{strings.steps[one]}</span>}
          </button>
        </li>
      ))}
    </ol>
  );
}
