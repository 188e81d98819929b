// Who it is, how it is, what will become of it.
import type { SandboxFull } from '../../api';
import { plainName } from '../../format/plain';
import { templateName } from '../../format/sandbox';
import { mib } from '../../format/size';
import { utc } from '../../format/time';
import { ErrorBanner, Id, Link, PageHead, SandboxState, useNow } from '../../ui';
import { Actions } from './actions';
import { nameOf } from './name';
import styles from './sandbox.module.css';
import { strings } from './strings';
import { isAway } from './tab-query';
import { policyWords, timeoutWords } from './words/policy';

export function Header({ sandbox, error, onRetry }: { sandbox: SandboxFull; error: unknown; onRetry: () => void }) {
  return (
    <>
      <div className={styles.head}>
        <PageHead
          title={nameOf(sandbox)}
          crumbs={[{ label: strings.sandboxes, href: '/sandboxes' }]}
          actions={<Actions sandbox={sandbox} />}
        >
          <span className={styles.badge}>
            {sandbox.phase === 'failed' ? <FailedBadge sandbox={sandbox} /> : <SandboxState sandbox={sandbox} badge />}
          </span>
          <Id id={sandbox.sandboxID} full />
        </PageHead>
        <Policy sandbox={sandbox} />
      </div>
      {Boolean(error) && !isAway(error) && <ErrorBanner error={error} lead={strings.old} onRetry={onRetry} />}
    </>
  );
}

/** Why it failed stands below, with the way out; the badge stays short. */
function FailedBadge({ sandbox }: { sandbox: SandboxFull }) {
  return <SandboxState sandbox={{ ...sandbox, reason: null }} badge />;
}

/** "base · 2 vCPU · 1 GiB · pauses in 41 m · pauses after 15 m idle" */
function Policy({ sandbox }: { sandbox: SandboxFull }) {
  const now = useNow();
  const timeout = timeoutWords(sandbox, now);
  const rest = sandbox.phase === 'failed' ? [] : policyWords(sandbox);
  return (
    <p className={`muted num ${styles.policy}`}>
      <span>
        <Link href={`/templates/${encodeURIComponent(sandbox.templateID)}`} className="mono">
          {plainName(templateName(sandbox), 60)}
        </Link>
      </span>
      <span>{`${sandbox.cpuCount} vCPU`}</span>
      <span>{mib(sandbox.memoryMB)}</span>
      {timeout && <span title={utc(sandbox.endAt)}>{timeout}</span>}
      {rest.map((words) => (
        <span key={words}>{words}</span>
      ))}
    </p>
  );
}
