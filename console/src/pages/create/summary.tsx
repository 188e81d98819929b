// What will be created, and the same as a command and as a call.
import { plainName } from '../../format/plain';
import { mib } from '../../format/size';
import { duration } from '../../format/time';
import { Button, Card, DataList, KeyHint, Meter, Snippets } from '../../ui';
import type { NewSandbox, Quota, Template } from '../../wire';
import type { Problems } from './checks';
import styles from './create.module.css';
import { type Draft, type Step, timeoutOf } from './draft';
import { cliOf, curlOf } from './snippets';
import { strings } from './strings';

const words = strings.summary;

export interface SummaryProps {
  draft: Draft;
  body: NewSandbox;
  template?: Template;
  quota?: Quota;
  files: readonly File[];
  problems: Problems;
  next: Step | null;
  isBusy: boolean;
  onNext: () => void;
  onCreate: () => void;
}

export function sizeWords(body: NewSandbox, template?: Template): string {
  const cpu = body.cpuCount ?? template?.cpuCount;
  const memory = body.memoryMB ?? template?.memoryMB;
  const disk = body.diskSizeMB ?? template?.diskSizeMB;
  const parts = [cpu && `${cpu} vCPU`, memory && mib(memory), disk && words.disk(mib(disk))];
  return parts.filter(Boolean).join(' · ') || strings.config.usual;
}

export function Summary(props: SummaryProps) {
  const { draft, body, template, quota, files, problems, next, isBusy, onNext, onCreate } = props;
  const isReady = Object.keys(problems).length === 0;
  const isImage = draft.source === 'image';
  const name = isImage ? draft.image.trim() : draft.template;
  const seconds = timeoutOf(draft);
  const cpus = body.cpuCount ?? template?.cpuCount ?? 0;
  const source = isImage ? { image: draft.image.trim(), user: draft.user.trim() } : {};
  const names = files.map((file) => file.name);
  const env = Object.keys(body.envVars ?? {}).length;
  const labels = Object.keys(body.metadata ?? {}).length;
  return (
    <Card
      title={words.title}
      actions={
        isReady ? (
          <span className="badge accent">{words.ready}</span>
        ) : (
          <span className="badge" data-state="waiting">
            {words.missing}
          </span>
        )
      }
    >
      <div className={styles.summary}>
        <DataList
          items={[
            [words.gpu, words.none],
            [
              words.image,
              name ? (
                <span key="image" className={`mono ${styles.any}`}>
                  {plainName(name, 120)}
                </span>
              ) : (
                words.notChosen
              ),
            ],
            [words.size, sizeWords(body, template)],
            [words.ends, seconds ? words.after(duration(seconds), draft.onTimeout) : null],
            ['', draft.idle ? words.idle(duration(draft.idle * 60)) : null],
            [words.network, draft.network ? strings.config.presets[draft.network] : null],
            [words.labels, labels > 0 ? String(labels) : null],
            [words.env, env > 0 ? words.variables(env) : null],
            [words.files, files.length > 0 ? String(files.length) : null],
          ]}
        />
        {quota && quota.limit.concurrentVcpu > 0 && (
          <Meter
            label={words.quota}
            value={quota.usage.concurrentVcpu + cpus}
            max={quota.limit.concurrentVcpu}
            text={words.of(quota.usage.concurrentVcpu + cpus, quota.limit.concurrentVcpu)}
          />
        )}
        <Snippets
          label={words.sameAs}
          snippets={[
            { label: 'CLI', text: cliOf(body, source, names) },
            { label: 'curl', text: curlOf(body, source, names) },
          ]}
        />
        <div className={styles.buttons}>
          <Button look="primary" size="lg" block onPress={onCreate} isPending={isBusy}>
            {words.createNow}
            <KeyHint keys="mod+enter" className="only-wide" />
          </Button>
          {next && (
            <Button size="lg" block onPress={onNext}>
              {words.next(strings.steps[next])}
            </Button>
          )}
        </div>
        <p className="meta">
          {isImage ? words.pulls : template?.buildStatus === 'building' ? strings.image.waits : words.here}
        </p>
      </div>
    </Card>
  );
}

/** On phones: a bar above the tabs. */
export function SummaryBar({ draft, body, template, next, isBusy, onNext, onCreate }: SummaryProps) {
  const name = draft.source === 'image' ? draft.image.trim() : draft.template;
  return (
    <div className={`only-small ${styles.bar}`}>
      <div className="grow">
        <div className="mono cut">{plainName(name, 60) || words.notChosen}</div>
        <div className="meta num cut">{sizeWords(body, template)}</div>
      </div>
      {next && <Button onPress={onNext}>{strings.steps[next]}</Button>}
      <Button look="primary" onPress={onCreate} isPending={isBusy}>
        {words.create}
      </Button>
    </div>
  );
}
