// A service in a frame: <ServicePane serviceId="svc_…" />. It fills what it is in.
import { useQueryClient } from '@tanstack/react-query';
import { TriangleAlert, X } from 'lucide-react';
import { useEffect, useId, useRef, useState } from 'react';
import { isApiError, openService, restartService, type Service, useService } from '../../api';
import type { Rect, Size } from '../../bridge/messages';
import { plain } from '../../format/plain';
import { isWeb } from '../../format/service';
import { applyService } from '../../live/services';
import { usePresence } from '../../live/use-presence';
import { Button, ErrorBanner, IconButton, SkeletonLines, toast } from '../../ui';
import { Down, Gone, Starting, Suspended } from './asleep';
import { CaptureError } from './channel';
import { ErrorsList } from './errors-list';
import { Head } from './head';
import styles from './pane.module.css';
import { openable } from './path';
import { RegionOverlay } from './region-overlay';
import { type PageShot, ShotDialog } from './shot-dialog';
import { loadPane, storePane } from './stored';
import { strings } from './strings';
import { useFrame } from './use-frame';
import { isWaking, viewOf } from './view';
import { fit } from './width';

export type { PageShot } from './shot-dialog';
export { loadPane } from './stored';

// Scripts and storage of its own, since it is always another origin; never the console's window.
const SANDBOX =
  'allow-scripts allow-same-origin allow-forms allow-modals allow-popups allow-popups-to-escape-sandbox allow-downloads';

export interface ServicePaneProps {
  serviceId: string;
  onClose?: () => void;
  /** Takes a screenshot of a region that was made here; else it is shown in a dialog. */
  onCapture?: (shot: PageShot) => void;
}

export function ServicePane(props: ServicePaneProps) {
  const { serviceId, onClose } = props;
  const query = useService(serviceId);
  useEffect(() => storePane(serviceId, { open: true }), [serviceId]);
  const close =
    onClose &&
    (() => {
      storePane(serviceId, { open: false });
      onClose();
    });
  const gone = isApiError(query.error) && query.error.code === 404;
  if (query.data && !gone) return <Known key={serviceId} {...props} service={query.data} onClose={close} />;
  return (
    <section className={styles.pane} aria-label={strings.region('')}>
      {gone ? (
        <Gone onClose={close} />
      ) : (
        <div className={styles.loading}>
          {query.error ? (
            <ErrorBanner error={query.error} onRetry={() => void query.refetch()} />
          ) : (
            <SkeletonLines lines={4} />
          )}
        </div>
      )}
    </section>
  );
}

function Known({ service, serviceId, onClose, onCapture }: ServicePaneProps & { service: Service }) {
  const client = useQueryClient();
  const [stored] = useState(() => loadPane(serviceId));
  const [width, setWidth] = useState(stored.width);
  const [waking, setWaking] = useState(false);
  const [restarting, setRestarting] = useState(false);
  const [showsErrors, setShowsErrors] = useState(false);
  const errorsId = useId();
  if (waking && !isWaking(service.state)) setWaking(false);
  const view = viewOf(service.state, waking);
  const frame = useFrame(serviceId, view === 'frame', stored.path);
  const stage = useStage();
  const shots = useShots(service, frame.capture, frame.scroll, onCapture);
  usePresence(view === 'frame' ? serviceId : null);
  if ((shots.isChoosing || shots.problem) && view !== 'frame') shots.cancel();

  async function restart(): Promise<void> {
    setRestarting(true);
    try {
      const next = await restartService(serviceId);
      applyService(client, { topic: '', type: 'service', service: next });
    } catch (error) {
      toast.failed(strings.restartFailed(service.name), error);
    } finally {
      setRestarting(false);
    }
  }
  async function openTab(): Promise<void> {
    try {
      const { url } = await openService(serviceId, { path: openable(frame.place.path), frame: false });
      if (!isWeb(url)) throw new Error(strings.noAddress);
      window.open(url, '_blank', 'noopener,noreferrer');
    } catch (error) {
      toast.failed(strings.openFailed(service.name), error);
    }
  }
  const shape = fit(width, stage.size);
  return (
    <section className={styles.pane} aria-label={strings.region(service.name)}>
      <Head
        service={service}
        frame={frame}
        isShown={view === 'frame'}
        width={width}
        onWidth={(next) => {
          setWidth(next);
          storePane(serviceId, { width: next });
        }}
        isChoosing={shots.isChoosing}
        onCamera={shots.isChoosing ? shots.leave : shots.choose}
        cameraRef={shots.cameraRef}
        errorsId={errorsId}
        showsErrors={showsErrors}
        onErrors={() => setShowsErrors(!showsErrors)}
        onOpenTab={openTab}
        onClose={onClose}
      />
      {showsErrors && frame.errors.total > 0 && (
        <ErrorsList
          id={errorsId}
          errors={frame.errors}
          onClear={frame.clearErrors}
          onClose={() => setShowsErrors(false)}
        />
      )}
      {shots.problem && <Problem {...shots.problem} onRetry={shots.choose} onClose={shots.leave} />}
      <div className={styles.stage} ref={stage.ref} data-view={view}>
        {view === 'suspended' && <Suspended service={service} onWake={() => setWaking(true)} />}
        {view === 'starting' && <Starting service={service} />}
        {view === 'down' && <Down service={service} busy={restarting} onRestart={restart} />}
        {view === 'frame' && frame.error !== null && (
          <div className={styles.loading}>
            <ErrorBanner error={frame.error} onRetry={() => frame.open()} />
          </div>
        )}
        {view === 'frame' && (waking || (!frame.opened && frame.error === null)) && (
          <progress className={`${styles.progress} ${styles.wake}`} aria-label={strings.opening} />
        )}
        {frame.opened && (
          <div
            className={styles.screen}
            style={{ width: shape.width * shape.scale, height: shape.height * shape.scale }}
          >
            <iframe
              key={frame.opened.round}
              ref={frame.ref}
              src={frame.opened.url}
              title={strings.frame(service.name)}
              sandbox={SANDBOX}
              referrerPolicy="no-referrer"
              onLoad={frame.onLoad}
              style={{ width: shape.width, height: shape.height, transform: `scale(${shape.scale})` }}
            />
            {shots.isChoosing && (
              <RegionOverlay
                scale={shape.scale}
                busy={shots.isBusy}
                action={onCapture ? strings.ask : strings.take}
                onTake={shots.take}
                onCancel={shots.leave}
              />
            )}
          </div>
        )}
      </div>
      {shots.shot && <ShotDialog shot={shots.shot} name={service.name} onClose={shots.close} />}
    </section>
  );
}

interface ProblemProps {
  text: string;
  hint?: string;
  onRetry: () => void;
  onClose: () => void;
}

function Problem({ text, hint, onRetry, onClose }: ProblemProps) {
  return (
    <div className={`banner ${styles.problem}`} data-state="failed" role="alert">
      <TriangleAlert className="lucide s" />
      <div className="grow">
        {text} {hint}
      </div>
      <Button size="sm" onPress={onRetry}>
        {strings.again}
      </Button>
      <IconButton size="sm" label={strings.hide} onPress={onClose}>
        <X />
      </IconButton>
    </div>
  );
}

/** Screenshots: choosing a region, drawing it, and what came of it. */
function useShots(
  service: Service,
  capture: ReturnType<typeof useFrame>['capture'],
  scroll: ReturnType<typeof useFrame>['scroll'],
  onCapture: ServicePaneProps['onCapture'],
) {
  const [isChoosing, setChoosing] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [shot, setShot] = useState<PageShot | null>(null);
  const [problem, setProblem] = useState<{ text: string; hint?: string } | null>(null);
  const cameraRef = useRef<HTMLButtonElement>(null);
  // What had the focus is not there any more: one goes on at the button by which one came.
  const focus = () => void requestAnimationFrame(() => cameraRef.current?.focus());
  async function take(rect: Rect): Promise<void> {
    setBusy(true);
    try {
      const { png, path, rect: area, viewport, dpr } = await capture(rect);
      const blob = new Blob([png], { type: 'image/png' });
      const taken = {
        png: blob,
        serviceId: service.id,
        path,
        rect: area,
        viewport,
        dpr,
        scroll: { ...scroll.current },
      };
      if (onCapture) onCapture(taken);
      else setShot(taken);
    } catch (error) {
      const silent = error instanceof CaptureError && error.silent;
      setProblem(
        silent
          ? { text: strings.silent, hint: service.bridge ? strings.silentHint : strings.silentOff }
          : { text: strings.because(plain(error instanceof Error ? error.message : String(error), 300)) },
      );
    } finally {
      setBusy(false);
      setChoosing(false);
    }
  }
  function cancel(): void {
    setChoosing(false);
    setProblem(null);
  }
  return {
    isChoosing,
    isBusy,
    shot,
    problem,
    take: (rect: Rect) => void take(rect),
    choose: () => {
      setProblem(null);
      setChoosing(true);
    },
    cancel,
    leave: () => {
      cancel();
      focus();
    },
    close: () => {
      setShot(null);
      focus();
    },
    cameraRef,
  };
}

/** The size of the room for the frame. */
function useStage() {
  const ref = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return { ref, size };
}
