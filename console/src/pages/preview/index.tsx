// Where a bare address of a private service leads: whoever is signed in is let in. Goes nowhere but where the server says.
import { useEffect, useState } from 'react';
import { useSearchParams } from 'wouter';
import { isApiError, listServices, openService } from '../../api';
import { isWeb } from '../../format/service';
import { Button, ButtonLink, ErrorBanner, useDocumentTitle, useLate } from '../../ui';
import { Hut } from '../welcome/hut';
import { strings } from './strings';
import { nextTurn, parseTarget, serviceAt, type Target } from './target';

type Stop =
  | { kind: 'invalid' | 'unknown' }
  | { kind: 'none' | 'elsewhere'; target: Target }
  | { kind: 'circles'; target: Target; serviceId: string }
  | { kind: 'failed'; target: Target; error: unknown };

const REFUSED = [400, 403, 404, 410];

/** Counts turns to one address in this tab. */
function mayTurn(target: Target): boolean {
  const name = `cabana.preview.${target.port}-${target.sandboxId}`;
  try {
    const times = nextTurn(sessionStorage.getItem(name), Date.now());
    if (times) sessionStorage.setItem(name, JSON.stringify(times));
    else sessionStorage.removeItem(name);
    return times !== null;
  } catch {
    // Storage is off: nothing is counted.
    return true;
  }
}

/** The address to go to, or why there is none. */
async function find(to: string | null, signal: AbortSignal): Promise<string | Stop> {
  const target = parseTarget(to);
  if (!target) return { kind: 'invalid' };
  try {
    const services = await listServices(target.sandboxId, signal);
    const service = serviceAt(target, services);
    if (!service) return { kind: services.some((one) => one.port === target.port) ? 'elsewhere' : 'none', target };
    if (!mayTurn(target)) return { kind: 'circles', target, serviceId: service.id };
    const opened = await openService(service.id, { path: target.path, frame: false });
    if (!isWeb(opened.url)) throw new Error('The server gave no address of the web.');
    return opened.url;
  } catch (error) {
    if (isApiError(error) && REFUSED.includes(error.code)) return { kind: 'unknown' };
    return { kind: 'failed', target, error };
  }
}

export default function Preview() {
  useDocumentTitle(strings.title);
  const [params] = useSearchParams();
  const to = params.get('to');
  const [stop, setStop] = useState<Stop | null>(null);
  const [tries, setTries] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `tries` is what begins again
  useEffect(() => {
    const leave = new AbortController();
    setStop(null);
    void find(to, leave.signal).then((found) => {
      if (leave.signal.aborted) return;
      if (typeof found === 'string') location.replace(found);
      else setStop(found);
    });
    return () => leave.abort();
  }, [to, tries]);
  if (!stop) return <Opening port={parseTarget(to)?.port} />;
  return (
    <Hut>
      <div className="stack" role="alert">
        <Words stop={stop} />
      </div>
      <div className="row wrap">
        <Ways stop={stop} onAgain={() => setTries(tries + 1)} />
      </div>
    </Hut>
  );
}

function Opening({ port }: { port: number | undefined }) {
  const late = useLate();
  if (!late) return null;
  return (
    <Hut>
      <h1 aria-busy="true">{port === undefined ? strings.title : strings.opening(port)}</h1>
    </Hut>
  );
}

function Words({ stop }: { stop: Stop }) {
  if (stop.kind === 'failed') {
    return (
      <>
        <h1>{strings.failed}</h1>
        <ErrorBanner error={stop.error} />
      </>
    );
  }
  const words = strings[stop.kind];
  const title = typeof words.title === 'string' ? words.title : words.title('target' in stop ? stop.target.port : 0);
  return (
    <>
      <h1>{title}</h1>
      <p className="muted lead">{words.text}</p>
    </>
  );
}

function Ways({ stop, onAgain }: { stop: Stop; onAgain: () => void }) {
  if (!('target' in stop)) {
    return (
      <ButtonLink href="/sandboxes" look="primary">
        {strings.sandboxes}
      </ButtonLink>
    );
  }
  const page = `/sandboxes/${encodeURIComponent(stop.target.sandboxId)}/ports`;
  const isHere = stop.kind === 'circles';
  return (
    <>
      {(stop.kind === 'failed' || isHere) && (
        <Button look="primary" onPress={onAgain}>
          {strings.again}
        </Button>
      )}
      <ButtonLink
        href={isHere ? `${page}?service=${encodeURIComponent(stop.serviceId)}` : page}
        look={stop.kind === 'failed' || isHere ? 'plain' : 'primary'}
      >
        {isHere ? strings.pane : strings.sandbox}
      </ButtonLink>
    </>
  );
}
