// What stands in the place of the frame while there is nothing to show.
import type { ReactNode } from 'react';
import type { Service } from '../../api';
import { plain } from '../../format/plain';
import type { State } from '../../format/sandbox';
import { duration } from '../../format/time';
import { Button, StateDot, useNow } from '../../ui';
import styles from './pane.module.css';
import { strings } from './strings';

export function Suspended({ service, onWake }: { service: Service; onWake: () => void }) {
  return (
    <Notice state="suspended" title={strings.suspended} service={service} text={strings.suspendedText}>
      <Button look="primary" onPress={onWake}>
        {strings.restart}
      </Button>
    </Notice>
  );
}

export function Starting({ service }: { service: Service }) {
  const seconds = Math.max(0, Math.floor((useNow() - Date.parse(service.since)) / 1000));
  return (
    <Notice
      state="creating"
      title={strings.starting}
      detail={seconds > 0 && seconds < 3600 ? duration(seconds) : null}
      service={service}
      text={strings.startingText(service.port)}
    >
      <progress className={styles.progress} aria-label={strings.starting} />
      <code className={styles.command}>{plain(service.command, 300)}</code>
    </Notice>
  );
}

/** It was stopped, or has failed. */
export function Down({ service, busy, onRestart }: { service: Service; busy: boolean; onRestart: () => void }) {
  const failed = service.state === 'error';
  return (
    <Notice
      state={failed ? 'failed' : 'stopped'}
      title={failed ? strings.failed : strings.stopped}
      service={service}
      text={service.reason ? null : failed ? strings.failedText : strings.stoppedText}
    >
      <Button look="primary" isDisabled={busy} onPress={onRestart}>
        {strings.restart}
      </Button>
    </Notice>
  );
}

export function Gone({ onClose }: { onClose?: () => void }) {
  return (
    <div className={styles.notice}>
      <h2>{strings.gone}</h2>
      <p className="muted">{strings.goneText}</p>
      {onClose && <Button onPress={onClose}>{strings.close}</Button>}
    </div>
  );
}

interface NoticeProps {
  state: State;
  title: string;
  detail?: string | null;
  service: Service;
  text: string | null;
  children: ReactNode;
}

function Notice({ state, title, detail, service, text, children }: NoticeProps) {
  const { reason, exitCode, lastLines } = service;
  return (
    <div className={styles.notice}>
      <div role="status">
        <h2 className="state" data-state={state}>
          <StateDot state={state} />
          <b>{title}</b>
          {detail && <span className="num">{detail}</span>}
        </h2>
      </div>
      {reason && <p className={styles.reason}>{plain(reason, 500)}</p>}
      {text && <p className="muted">{text}</p>}
      {exitCode !== null && !reason?.includes(String(exitCode)) && <p className="muted">{strings.exit(exitCode)}</p>}
      {children}
      {lastLines.length > 0 && (
        <section className={`code ${styles.lines}`} aria-label={strings.lastLines}>
          <header>{strings.lastLines}</header>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
          <pre tabIndex={0}>
            {lastLines
              .slice(-20)
              .map((line) => plain(line, 500))
              .join('\n')}
          </pre>
        </section>
      )}
    </div>
  );
}
