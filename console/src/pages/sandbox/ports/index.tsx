// Services and ports of a sandbox. `?service=…` shows that service in a pane beside them.
import { Suspense, useEffect, useRef, useState } from 'react';
import { useSearchParams } from 'wouter';
import { type Port, type Service, useServices } from '../../../api';
import { lazyPart } from '../../../lazy-part';
import { SplitPane } from '../../../ui';
import styles from '../sandbox.module.css';
import type { TabProps } from '../tab';
import { useSmall } from '../use-small';
import { Listening } from './listening';
import { Services } from './services';
import local from './services.module.css';
import { shownService } from './shown';
import { StartDialog } from './start';
import { strings } from './strings';

const ServicePane = lazyPart(
  () => import('../../../services/pane'),
  (module) => module.ServicePane,
);
const NONE: Service[] = [];

export default function Ports({ sandbox }: TabProps) {
  const id = sandbox.sandboxID;
  const [params, setParams] = useSearchParams();
  const [starting, start] = useState<{ port: Port | null } | null>(null);
  const small = useSmall();
  const query = useServices(id);
  const services = query.data ?? NONE;
  const selected = shownService(params);
  const box = useRef<HTMLDivElement>(null);
  // What had the focus is drawn anew when the pane comes or goes.
  const focus = useRef<string | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `selected` is what moves the focus
  useEffect(() => {
    if (focus.current) box.current?.querySelector<HTMLElement>(focus.current)?.focus();
    focus.current = null;
  }, [selected]);
  function select(service: string | null): void {
    focus.current = service ? '[data-pane]' : `[data-service="${selected}"] [data-open]`;
    setParams((old) => {
      const next = new URLSearchParams(old);
      if (service === null) next.delete('service');
      else next.set('service', service);
      return next;
    });
  }
  const lists = (
    <>
      <Services
        sandboxId={id}
        query={query}
        selected={selected}
        compact={small || selected !== null}
        quiet={(sandbox.phase || sandbox.state) !== 'running'}
        onStart={() => start({ port: null })}
        onSelect={select}
      />
      <Listening sandbox={sandbox} services={services} onMake={(port) => start({ port })} />
    </>
  );
  return (
    <div ref={box} className={selected === null ? styles.content : local.split}>
      {selected === null ? (
        <div className={styles.panel}>{lists}</div>
      ) : (
        <SplitPane
          name="services"
          label={strings.services}
          initial={420}
          min={300}
          max={760}
          small="second"
          first={<div className={local.side}>{lists}</div>}
          second={
            <div className={local.pane} data-pane tabIndex={-1}>
              <Suspense>
                <ServicePane key={selected} serviceId={selected} onClose={() => select(null)} />
              </Suspense>
            </div>
          }
        />
      )}
      {starting && (
        <StartDialog
          sandboxId={id}
          services={services}
          port={starting.port}
          onClose={() => start(null)}
          onStarted={() => start(null)}
        />
      )}
    </div>
  );
}
