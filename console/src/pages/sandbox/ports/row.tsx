// One service: what it does, where it is, and what can be done with it.
import {
  ChevronRight,
  Copy,
  Ellipsis,
  ExternalLink,
  Link2,
  Play,
  RotateCw,
  Settings2,
  Square,
  Trash2,
} from 'lucide-react';
import { useState } from 'react';
import type { Service } from '../../../api';
import { plain, plainName } from '../../../format/plain';
import { isUp, isWeb, serviceStatus } from '../../../format/service';
import { Button, copyText, IconButton, Menu, type MenuEntry, StateText, toast, useNow } from '../../../ui';
import { AccessBadge } from './access';
import { ServiceLog } from './log';
import { openTab } from './open-tab';
import styles from './services.module.css';
import { strings } from './strings';
import { useServiceActs } from './use-service-acts';

export type ServiceDialog = 'links' | 'settings' | 'delete';

export interface RowProps {
  service: Service;
  /** It is shown in the pane. */
  isSelected: boolean;
  /** Little room: most acts are in the menu. */
  compact: boolean;
  onOpen: () => void;
  onDialog: (dialog: ServiceDialog) => void;
}

export function ServiceRow({ service, isSelected, compact, onOpen, onDialog }: RowProps) {
  const [showsLog, setShowsLog] = useState(false);
  const status = serviceStatus(service, useNow());
  const name = plainName(service.name, 40);
  const isAsleep = service.state === 'suspended' || service.state === 'stopped';
  return (
    <li
      className={isAsleep ? `${styles.service} ${styles.asleep}` : styles.service}
      data-selected={isSelected || undefined}
      data-service={service.id}
      aria-label={name}
    >
      <div className={styles.top}>
        <span className={styles.name}>{name}</span>
        <span className={service.port === null ? 'meta' : 'mono muted'}>
          {service.port === null ? strings.noPort : `:${service.port}`}
        </span>
        <StateText {...status} />
        <AccessBadge access={service.access} />
        {service.alwaysOn && <span className="badge line">{strings.alwaysOn}</span>}
        <Acts service={service} name={name} compact={compact} onOpen={onOpen} onDialog={onDialog} />
      </div>
      <div className={`meta ${styles.about}`}>
        <Button
          look="quiet"
          size="sm"
          className={styles.fold}
          aria-expanded={showsLog}
          aria-label={strings.logOf(name)}
          onPress={() => setShowsLog(!showsLog)}
        >
          <ChevronRight />
          {strings.log}
        </Button>
        <span className={styles.command} title={plain(service.command, 500)}>
          {plainName(service.command, 300)}
        </span>
        {service.restarts > 0 && <span className="num">{strings.restarts(service.restarts)}</span>}
        {service.slug && <span className={styles.command}>{plainName(service.slug, 40)}</span>}
        {typeof service.exitCode === 'number' && !service.reason && (
          <span className="num">{strings.exit(service.exitCode)}</span>
        )}
      </div>
      {service.reason && (
        <p className={service.state === 'error' ? styles.reason : 'meta'}>{plain(service.reason, 500)}</p>
      )}
      {service.state === 'error' && !showsLog && <LastLines service={service} name={name} />}
      {showsLog && <ServiceLog service={service} />}
    </li>
  );
}

function LastLines({ service, name }: { service: Service; name: string }) {
  if (service.lastLines.length === 0) return null;
  return (
    <pre
      className={styles.lines}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
      tabIndex={0}
      role="region"
      aria-label={strings.lastLines(name)}
    >
      {service.lastLines
        .slice(-20)
        .map((line) => plain(line, 500))
        .join('\n')}
    </pre>
  );
}

interface ActsProps extends Pick<RowProps, 'service' | 'compact' | 'onOpen' | 'onDialog'> {
  name: string;
}

function Acts({ service, name, compact, onOpen, onDialog }: ActsProps) {
  const { busy, run } = useServiceActs(service);
  const up = isUp(service);
  const needsRestart = service.state === 'suspended' || service.state === 'error';
  const { url } = service;
  const stop: MenuEntry = { label: strings.stop, icon: <Square />, onAction: () => void run('stop') };
  const folded: MenuEntry[] = [
    { label: strings.tab, icon: <ExternalLink />, onAction: () => void openTab(service) },
    ...(needsRestart ? [] : [{ label: strings.restart, icon: <RotateCw />, onAction: () => void run('restart') }]),
    ...(service.state === 'stopped' ? [] : [stop]),
    { label: strings.links, icon: <Link2 />, onAction: () => onDialog('links') },
  ];
  const items: MenuEntry[] = [
    ...(compact ? folded : needsRestart ? [stop] : []),
    ...(isWeb(url)
      ? [
          {
            label: strings.copyUrl,
            icon: <Copy />,
            onAction: () => void copyText(url).then(() => toast.done(strings.copied)),
          },
        ]
      : []),
    { label: strings.settings, icon: <Settings2 />, onAction: () => onDialog('settings') },
    'separator',
    { label: strings.delete, icon: <Trash2 />, danger: true, onAction: () => onDialog('delete') },
  ];
  return (
    <div className={styles.acts}>
      {needsRestart && (
        <Button
          size="sm"
          aria-label={`${strings.restart} ${name}`}
          isPending={busy === 'restart'}
          onPress={() => void run('restart')}
        >
          <RotateCw />
          {strings.restart}
        </Button>
      )}
      {service.state === 'stopped' && (
        <Button
          size="sm"
          aria-label={strings.startName(name)}
          isPending={busy === 'start'}
          onPress={() => void run('start')}
        >
          <Play />
          {strings.startAgain}
        </Button>
      )}
      <Button size="sm" aria-label={strings.openService(name)} onPress={onOpen} data-open>
        {strings.open}
      </Button>
      {!compact && (
        <>
          <IconButton size="sm" label={strings.openTab(name)} onPress={() => void openTab(service)}>
            <ExternalLink />
          </IconButton>
          {up && (
            <>
              <IconButton
                size="sm"
                label={strings.restartName(name)}
                isPending={busy === 'restart'}
                onPress={() => void run('restart')}
              >
                <RotateCw />
              </IconButton>
              <Button
                size="sm"
                look="quiet"
                aria-label={strings.stopName(name)}
                isPending={busy === 'stop'}
                onPress={() => void run('stop')}
              >
                <Square />
                {strings.stop}
              </Button>
            </>
          )}
          <Button size="sm" look="quiet" aria-label={strings.linksOf(name)} onPress={() => onDialog('links')}>
            <Link2 />
            {strings.links}
          </Button>
        </>
      )}
      <Menu
        label={strings.more(name)}
        items={items}
        trigger={
          <IconButton size="sm" label={strings.more(name)}>
            <Ellipsis />
          </IconButton>
        }
      />
    </div>
  );
}
