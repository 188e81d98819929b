// The bar above the frame: what the service does, where its page is, and what can be done with it.
import {
  ArrowLeft,
  ArrowRight,
  Camera,
  ExternalLink,
  Monitor,
  RotateCw,
  Smartphone,
  Tablet,
  TriangleAlert,
  X,
} from 'lucide-react';
import { type ReactNode, type RefObject, useId, useState } from 'react';
import type { Service } from '../../api';
import { plainName } from '../../format/plain';
import { serviceStatus } from '../../format/service';
import { Button, IconButton, Segmented, StateDot } from '../../ui';
import styles from './pane.module.css';
import { typedPath } from './path';
import { strings } from './strings';
import type { Frame } from './use-frame';
import type { Width } from './width';

const ICONS: [Width, ReactNode][] = [
  ['phone', <Smartphone key="phone" className="lucide s" />],
  ['tablet', <Tablet key="tablet" className="lucide s" />],
  ['full', <Monitor key="full" className="lucide s" />],
];

export interface HeadProps {
  service: Service;
  frame: Frame;
  /** Whether the page is shown. */
  isShown: boolean;
  width: Width;
  onWidth: (width: Width) => void;
  isChoosing: boolean;
  onCamera: () => void;
  cameraRef: RefObject<HTMLButtonElement | null>;
  errorsId: string;
  showsErrors: boolean;
  onErrors: () => void;
  onOpenTab: () => void;
  onClose?: () => void;
}

export function Head(props: HeadProps) {
  const { service, frame, isShown, width, onWidth, isChoosing, onCamera, onOpenTab, onClose } = props;
  const { state, word } = serviceStatus(service);
  const { total } = frame.errors;
  return (
    <header className={styles.head}>
      <span className={`state ${styles.who}`} data-state={state}>
        <StateDot state={state} />
        <b>{service.name}</b>
        <span>{word}</span>
      </span>
      <div className={styles.nav}>
        <IconButton
          size="sm"
          label={strings.back}
          isDisabled={!isShown || frame.place.back === false}
          onPress={() => frame.step('back')}
        >
          <ArrowLeft />
        </IconButton>
        <IconButton
          size="sm"
          label={strings.forward}
          isDisabled={!isShown || frame.place.forward === false}
          onPress={() => frame.step('forward')}
        >
          <ArrowRight />
        </IconButton>
        <IconButton size="sm" label={strings.reload} isDisabled={!isShown} onPress={frame.reload}>
          <RotateCw />
        </IconButton>
      </div>
      <PathField service={service} frame={frame} isDisabled={!isShown} />
      <div className={styles.tools}>
        {total > 0 && (
          <Button
            size="sm"
            className={styles.errorsButton}
            aria-expanded={props.showsErrors}
            aria-controls={props.showsErrors ? props.errorsId : undefined}
            onPress={props.onErrors}
          >
            <TriangleAlert className="lucide s" />
            <span className="num">{total > 99 ? '99+' : total}</span>
            <span className="sr">{strings.errors(total)}</span>
          </Button>
        )}
        <Segmented
          size="sm"
          label={strings.width}
          value={width}
          onChange={onWidth}
          options={ICONS.map(([id, icon]) => ({
            id,
            label: (
              <span title={strings.widths[id]} className={styles.widthIcon}>
                {icon}
                <span className="sr">{strings.widths[id]}</span>
              </span>
            ),
          }))}
        />
        <IconButton
          ref={props.cameraRef}
          size="sm"
          label={strings.camera}
          aria-pressed={isChoosing}
          className={isChoosing ? styles.pressed : undefined}
          isDisabled={!isShown}
          onPress={onCamera}
        >
          <Camera />
        </IconButton>
        <IconButton size="sm" label={strings.openTab} onPress={onOpenTab}>
          <ExternalLink />
        </IconButton>
        {onClose && (
          <IconButton size="sm" label={strings.close} onPress={onClose}>
            <X />
          </IconButton>
        )}
      </div>
    </header>
  );
}

function PathField({ service, frame, isDisabled }: { service: Service; frame: Frame; isDisabled: boolean }) {
  const [draft, setDraft] = useState<string | null>(null);
  const [wrong, setWrong] = useState(false);
  const problem = useId();
  const shown = plainName(frame.place.path, 2048);
  function leave(): void {
    setDraft(null);
    setWrong(false);
  }
  function submit(event: React.FormEvent<HTMLFormElement>): void {
    event.preventDefault();
    const own = service.url && URL.canParse(service.url) ? new URL(service.url).origin : null;
    const path = typedPath(draft ?? shown, [own, frame.opened?.origin ?? null]);
    setWrong(path === null);
    if (path === null) return;
    frame.go(path);
    leave();
  }
  return (
    <form className={styles.path} onSubmit={submit} data-bad={wrong || undefined}>
      <input
        className="mono"
        aria-label={strings.path}
        aria-invalid={wrong || undefined}
        aria-describedby={wrong ? problem : undefined}
        value={draft ?? shown}
        title={frame.place.title ? plainName(frame.place.title, 200) : undefined}
        disabled={isDisabled}
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        maxLength={2048}
        onChange={(event) => {
          setDraft(event.target.value);
          setWrong(false);
        }}
        onBlur={leave}
        onKeyDown={(event) => {
          if (event.key !== 'Escape' || draft === null) return;
          event.stopPropagation();
          leave();
        }}
      />
      {wrong && (
        <span id={problem} role="alert" className={styles.wrong}>
          {strings.notHere}
        </span>
      )}
    </form>
  );
}
