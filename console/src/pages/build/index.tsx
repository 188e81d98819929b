// One build: its steps, its log as it grows, and why it failed.
import { useQuery } from '@tanstack/react-query';
import { CircleStop, Download, Play, RotateCcw } from 'lucide-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useParams } from 'wouter';
import { cancelBuild, templateQuery, templatesQuery } from '../../api';
import { cli, curl } from '../../format/snippet';
import { duration } from '../../format/time';
import {
  Button,
  ButtonLink,
  Card,
  ConfirmDialog,
  ErrorBanner,
  IconButton,
  Id,
  Page,
  PageHead,
  Since,
  SkeletonLines,
  SnippetMenu,
  StateBadge,
  Switch,
  toast,
} from '../../ui';
import { Again } from '../templates/again';
import { createHref, nameOf } from '../templates/mine';
import { buildWords, isOpen } from '../templates/state';
import styles from './build.module.css';
import { Failure } from './failure';
import { isCancelled, offsetOf, Steps } from './log';
import { type LogHandle, LogView } from './log-view';
import { StepsList } from './steps-list';
import { strings } from './strings';
import { useBuild, wholeLog } from './use-build';

export default function Build() {
  const { id = '', build = '' } = useParams();
  return <BuildPage key={`${id}/${build}`} templateID={id} buildID={build} />;
}

function BuildPage({ templateID, buildID }: { templateID: string; buildID: string }) {
  const { log, status, reason, error, polling, retry } = useBuild(templateID, buildID);
  const template = useQuery(templateQuery(templateID)).data;
  const templates = useQuery(templatesQuery()).data?.items ?? [];
  const [times, setTimes] = useState(false);
  const [asking, setAsking] = useState(false);
  const [again, setAgain] = useState(false);
  const [reading, setReading] = useState(false);
  const view = useRef<LogHandle>(null);
  const reader = useRef(new Steps());
  const row = template?.builds.find((one) => one.buildID === buildID);
  const name = template ? nameOf(template) : templateID;
  const finishedAt = row?.finishedAt ? Date.parse(row.finishedAt) : null;

  const steps = useMemo(() => {
    reader.current.read(log);
    return reader.current.list(status ?? 'building', reason?.step ?? null, finishedAt);
  }, [log, status, reason, finishedAt]);
  const titles = useMemo(() => new Set(steps.map((step) => step.line)), [steps]);
  const progress = reader.current.progress();
  const open = status !== null && isOpen(status);

  const before = useRef(status);
  const [said, setSaid] = useState('');
  useEffect(() => {
    if (before.current && status !== before.current) setSaid(strings.announce[status ?? ''] ?? '');
    before.current = status;
  }, [status]);

  async function download(): Promise<void> {
    setReading(true);
    try {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob(await wholeLog(templateID, buildID), { type: 'text/plain' }));
      link.download = `${name.replace(/[^\w.-]/g, '_')}-${buildID.slice(0, 8)}.log`;
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (cause) {
      toast.failed(strings.downloadFailed, cause);
    } finally {
      setReading(false);
    }
  }

  const ended = status === 'error' && isCancelled(reason);
  const words = status === null ? null : ended ? strings.endedWords : buildWords(status);
  const rebuild = template && !template.aliases.includes('base') && (
    <Button onPress={() => setAgain(true)}>
      <RotateCcw />
      {strings.again}
    </Button>
  );
  return (
    <Page title={strings.title(name)} fill>
      <PageHead
        title={strings.build}
        crumbs={[
          { label: strings.templates, href: '/templates' },
          { label: name, href: `/templates/${templateID}` },
        ]}
        actions={
          <>
            <SnippetMenu
              api={curl('GET', `/templates/${templateID}/builds/${buildID}/status`)}
              cli={cli('template', 'logs', `${name}:${buildID}`, open && '--follow')}
            />
            {open && (
              <Button look="danger" onPress={() => setAsking(true)}>
                <CircleStop />
                {strings.cancel}
              </Button>
            )}
            {status === 'ready' && rebuild}
            {status === 'ready' && template && (
              <ButtonLink look="primary" href={createHref(template)}>
                <Play />
                {strings.use}
              </ButtonLink>
            )}
          </>
        }
      >
        {words && <StateBadge {...words} />}
        <span className="only-wide">
          <Id id={buildID} label="Copy the build's id" />
        </span>
        <span className="meta num only-wide">
          {open && progress.of > 0 && `${strings.progress(progress.at, progress.of)} · `}
          {open && row && <Since at={row.createdAt} />}
          {!open && row && finishedAt && duration(Math.max(0, finishedAt - Date.parse(row.createdAt)) / 1000)}
        </span>
      </PageHead>
      <span role="status" className="sr">
        {said}
      </span>
      {error ? <ErrorBanner error={error} onRetry={retry} /> : null}
      {status === 'error' && reason && <Failure reason={reason} actions={rebuild} />}
      <div className={styles.columns}>
        <Card title={strings.steps} flush className={styles.stepsCard}>
          {steps.length > 0 ? (
            <StepsList steps={steps} onGo={(line) => view.current?.goTo(line)} />
          ) : (
            <div className={styles.nothing}>
              {status === null ? <SkeletonLines lines={3} /> : status === 'waiting' ? strings.waiting : strings.noSteps}
            </div>
          )}
        </Card>
        <Card
          title={strings.log}
          flush
          className={styles.logCard}
          actions={
            <>
              <span className="meta num only-wide">{strings.lines(offsetOf(log))}</span>
              <Switch isSelected={times} onChange={setTimes}>
                <span className="meta">{strings.times}</span>
              </Switch>
              <IconButton
                size="sm"
                label={reading ? strings.downloading : strings.download}
                onPress={download}
                isPending={reading}
              >
                <Download />
              </IconButton>
            </>
          }
        >
          {polling && <p className={`meta ${styles.note}`}>{strings.polling}</p>}
          {log.dropped > 0 && <p className={`meta ${styles.note}`}>{strings.dropped(log.dropped)}</p>}
          <LogView log={log} titles={titles} times={times} live={open} handle={view} />
        </Card>
      </div>
      <ConfirmDialog
        isOpen={asking}
        onClose={() => setAsking(false)}
        title={strings.cancelTitle(name)}
        action={strings.cancelAction}
        onConfirm={() => cancelBuild(templateID, buildID).then(retry)}
      >
        <p>{strings.cancelText}</p>
      </ConfirmDialog>
      {again && template && <Again template={template} templates={templates} onClose={() => setAgain(false)} />}
    </Page>
  );
}
