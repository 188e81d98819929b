// What listens in a sandbox.
import { useQuery } from '@tanstack/react-query';
import { ExternalLink as OpenIcon, Play } from 'lucide-react';
import { useEffect, useState } from 'react';
import { type Port, portsQuery, type SandboxFull, type Service } from '../../../api';
import { plainName } from '../../../format/plain';
import { statusOf } from '../../../format/sandbox';
import { isWeb } from '../../../format/service';
import { quote } from '../../../format/snippet';
import { isWatched } from '../../../presence';
import { Button, CodeBlock, Dialog, ExternalLink, SkeletonRows, Table, Updated } from '../../../ui';
import styles from '../sandbox.module.css';
import { strings as page } from '../strings';
import { TabQuery } from '../tab-query';
import { useActs } from '../use-acts';
import local from './ports.module.css';
import { strings } from './strings';

const words = page.ports;
const EVERY = 5000;

export interface ListeningProps {
  sandbox: SandboxFull;
  /** Which ports are of a service. */
  services: readonly Service[];
  onMake: (port: Port) => void;
}

/** A request of this list resumes a paused sandbox, so that only running ones are asked. */
export function Listening(props: ListeningProps) {
  const runs = (props.sandbox.phase || props.sandbox.state) === 'running';
  return runs ? <Ports {...props} /> : <Asleep sandbox={props.sandbox} />;
}

function Asleep({ sandbox }: { sandbox: SandboxFull }) {
  const { busy, run } = useActs(sandbox);
  const phase = sandbox.phase || sandbox.state;
  return (
    <section className="card">
      <div className="empty">
        <h2>{words.asleep(statusOf({ ...sandbox, reason: null }).word.toLowerCase())}</h2>
        {['paused', 'archived', 'recycled'].includes(phase) && (
          <>
            <p>{words.asleepText}</p>
            <Button onPress={() => void run('resume')} isPending={busy !== null}>
              <Play />
              {page.actions.resume}
            </Button>
          </>
        )}
      </div>
    </section>
  );
}

function Ports({ sandbox, services, onMake }: ListeningProps) {
  const id = sandbox.sandboxID;
  const query = useQuery(portsQuery(id));
  const { refetch } = query;
  useEffect(() => {
    const timer = setInterval(() => {
      if (isWatched()) void refetch();
    }, EVERY);
    return () => clearInterval(timer);
  }, [refetch]);
  const [shown, show] = useState<Port | null>(null);
  return (
    <div className={styles.panel}>
      <TabQuery id={id} query={query} skeleton={<SkeletonRows rows={3} />}>
        {(ports) =>
          ports.length === 0 ? (
            <section className="card">
              <div className="empty">
                <h2>{words.empty}</h2>
                <p>{words.emptyText}</p>
              </div>
            </section>
          ) : (
            <>
              <div className="row">
                <h2>{words.listening}</h2>
                <span className="grow" />
                <Updated at={query.dataUpdatedAt} />
              </div>
              <Table
                label={words.listening}
                columns={[
                  { label: words.port },
                  { label: words.process },
                  { label: words.address, wide: true },
                  { label: words.reach, right: true, hideLabel: true },
                ]}
              >
                {ports.slice(0, 500).map((port) => (
                  <tr key={`${port.port} ${port.address}`}>
                    <td className="mono">{`:${port.port}`}</td>
                    <td>
                      <span className={local.process}>
                        <span className="mono cut">{plainName(port.process ?? words.unknown, 60)}</span>
                        {typeof port.pid === 'number' && <span className="meta num">{words.pid(port.pid)}</span>}
                      </span>
                    </td>
                    <td className="only-wide mono muted">{plainName(port.address, 60)}</td>
                    <td className="right">
                      <Reach
                        port={port}
                        service={services.find((one) => one.port === port.port)}
                        onShow={() => show(port)}
                        onMake={() => onMake(port)}
                      />
                    </td>
                  </tr>
                ))}
              </Table>
            </>
          )
        }
      </TabQuery>
      {shown && <CurlDialog id={id} port={shown} sandbox={sandbox} onClose={() => show(null)} />}
    </div>
  );
}

interface ReachProps {
  port: Port;
  service: Service | undefined;
  onShow: () => void;
  onMake: () => void;
}

function Reach({ port, service, onShow, onMake }: ReachProps) {
  // What is of a service is opened there, where its access counts.
  if (service) return <span className="meta">{strings.servedBy(plainName(service.name, 40))}</span>;
  return (
    <span className={local.reach}>
      <Button size="sm" look="quiet" aria-label={strings.makeOf(port.port)} onPress={onMake}>
        {strings.make}
      </Button>
      {isWeb(port.url) ? (
        <ExternalLink href={port.url} className="btn sm" aria-label={words.openPort(port.port)}>
          <OpenIcon />
          {words.open}
        </ExternalLink>
      ) : (
        <Button size="sm" onPress={onShow}>
          {words.curl}
        </Button>
      )}
    </span>
  );
}

function CurlDialog({
  id,
  port,
  sandbox,
  onClose,
}: {
  id: string;
  port: Port;
  sandbox: SandboxFull;
  onClose: () => void;
}) {
  const isPrivate = sandbox.network?.allowPublicTraffic === false;
  const lines = [
    `curl ${quote(`${location.origin}/`)}`,
    `-H 'E2b-Sandbox-Id: ${id}'`,
    `-H 'E2b-Sandbox-Port: ${port.port}'`,
    ...(isPrivate ? ['-H "e2b-traffic-access-token: $TOKEN"'] : []),
  ];
  return (
    <Dialog isOpen onClose={onClose} title={words.curlTitle(port.port)} size="lg">
      <div className="stack">
        <p className="muted">{words.curlText}</p>
        <CodeBlock text={lines.join(' \\\n  ')} label={words.curl} />
        {isPrivate && <p className="meta">{words.token}</p>}
      </div>
    </Dialog>
  );
}
