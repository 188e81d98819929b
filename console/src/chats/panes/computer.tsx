// Files and terminals of a chat's sandbox: the tabs of the sandbox's own page, in small.
import { Suspense } from 'react';
import { lazyPart } from '../../lazy-part';
import { useSandbox } from '../../pages/sandbox/use-sandbox';
import { ErrorBanner, SkeletonLines } from '../../ui';
import styles from './panes.module.css';
import { strings } from './strings';

const FilesTab = lazyPart(() => import('../../pages/sandbox/files'));
const TerminalTab = lazyPart(() => import('../../pages/sandbox/terminal'));

export function Computer({ sandboxId, kind }: { sandboxId: string; kind: 'files' | 'terminal' }) {
  const { known, retry } = useSandbox(sandboxId);
  switch (known.kind) {
    case 'open':
      return (
        <Suspense fallback={<Waiting />}>
          <div className={styles.computer} data-kind={kind}>
            {kind === 'files' ? <FilesTab sandbox={known.sandbox} compact /> : <TerminalTab sandbox={known.sandbox} />}
          </div>
        </Suspense>
      );
    case 'error':
      return (
        <div className={styles.padded}>
          <ErrorBanner error={known.error} onRetry={retry} />
        </div>
      );
    case 'loading':
      return <Waiting />;
    case 'creating':
      return <Empty kind={kind} title={strings.creatingTitle} />;
    default:
      return <Empty kind={kind} title={strings.goneTitle} text={strings.goneText} />;
  }
}

function Waiting() {
  return (
    <div className={styles.padded}>
      <SkeletonLines lines={5} />
    </div>
  );
}

export function Empty({ kind, title, text }: { kind: keyof typeof strings.kinds; title: string; text?: string }) {
  return (
    <section className={styles.empty} aria-label={strings.kinds[kind]}>
      <h2>{title}</h2>
      {text && <p className="muted">{text}</p>}
    </section>
  );
}
