import { useQuery } from '@tanstack/react-query';
import { type SandboxFull, sandboxEventsQuery } from '../../../api';
import { plainName } from '../../../format/plain';
import { shortId, templateName } from '../../../format/sandbox';
import { mib } from '../../../format/size';
import { duration } from '../../../format/time';
import { Card, DataList, Link, Time } from '../../../ui';
import { strings } from '../strings';
import { useNames } from '../use-names';
import { timeoutWords } from '../words/policy';

export function Facts({ sandbox }: { sandbox: SandboxFull }) {
  const words = strings.overview;
  const template = encodeURIComponent(sandbox.templateID);
  const { data: events } = useQuery(sandboxEventsQuery(sandbox.sandboxID, { limit: 20 }));
  const build = events?.[0]?.sandboxBuildId;
  const { lifecycle } = sandbox;
  const endless = timeoutWords(sandbox, 0) === 'no timeout';
  return (
    <Card title={words.facts}>
      <DataList
        items={[
          [
            words.template,
            <span key="template">
              <Link href={`/templates/${template}`} className="mono">
                {plainName(templateName(sandbox), 80)}
              </Link>
              {build && (
                <span className="muted">
                  {` ${words.build} `}
                  <Link href={`/templates/${template}/builds/${encodeURIComponent(build)}`} className="mono">
                    {shortId(build)}
                  </Link>
                </span>
              )}
            </span>,
          ],
          [words.size, `${sandbox.cpuCount} vCPU · ${mib(sandbox.memoryMB)} memory · ${mib(sandbox.diskSizeMB)} disk`],
          [words.created, <Time key="created" at={sandbox.startedAt} />],
          [words.madeBy, <MadeBy key="by" sandbox={sandbox} />],
          [words.ends, sandbox.state === 'running' && !endless ? <Time key="ends" at={sandbox.endAt} /> : null],
          [words.timeout, words.onTimeout[lifecycle?.onTimeout ?? ''] ?? null],
          [words.idle, lifecycle?.idleTimeout ? words.idleText(duration(lifecycle.idleTimeout)) : null],
          [words.resumes, lifecycle?.autoResume ? words.resumesText : null],
          [words.failure, words.failureText[lifecycle?.onFailure ?? ''] ?? null],
          [words.pauseMode, words.pauseModes[sandbox.pauseMode ?? ''] ?? null],
          [words.keep, lifecycle?.keep?.length ? lifecycle.keep.map((path) => plainName(path, 80)).join(', ') : null],
        ]}
      />
    </Card>
  );
}

/** The server says who; before it did, the first event has the key's id. */
export function MadeBy({ sandbox }: { sandbox: SandboxFull }) {
  const name = useNames();
  const { data: oldest } = useQuery({
    ...sandboxEventsQuery(sandbox.sandboxID, { limit: 1, orderAsc: true }),
    enabled: !sandbox.createdBy,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const maker = sandbox.createdBy;
  if (maker) {
    const label = plainName(maker.name || shortId(maker.id ?? ''), 60);
    return <>{maker.kind === 'key' ? strings.who.key(label) : maker.kind === 'system' ? strings.who.system : label}</>;
  }
  const by = oldest?.[0]?.eventData?.by;
  return <>{typeof by === 'string' ? name(by) : '–'}</>;
}
