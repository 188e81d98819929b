import { useQuery } from '@tanstack/react-query';
import { networkQuery, type SandboxFull } from '../../../api';
import { plainName } from '../../../format/plain';
import { count } from '../../../format/size';
import { Card, DataList, SkeletonLines, Time } from '../../../ui';
import { strings } from '../strings';
import { TabQuery } from '../tab-query';
import { networkWords } from '../words/network';
import local from './overview.module.css';

const RECENT = 8;

export function Network({ sandbox }: { sandbox: SandboxFull }) {
  const words = strings.overview;
  const id = sandbox.sandboxID;
  const query = useQuery({ ...networkQuery(id), enabled: sandbox.phase !== 'failed' });
  if (sandbox.phase === 'failed') return null;
  return (
    <Card title={words.network}>
      <TabQuery id={id} query={query} skeleton={<SkeletonLines />}>
        {({ network, preset, denials }) => {
          const { summary, details } = networkWords({ network, preset });
          return (
            <div className="stack">
              <DataList
                items={[
                  [words.connects, summary],
                  ...details.map(([name, value]): [string, React.ReactNode] => [
                    name,
                    <span key={name} className={`mono ${local.places}`}>
                      {value}
                    </span>,
                  ]),
                  [words.ports, network.allowPublicTraffic ? words.portsPublic : words.portsPrivate],
                ]}
              />
              {denials.total === 0 ? (
                <p className="meta">{words.noneDenied}</p>
              ) : (
                <>
                  <h3 className={local.denied}>{words.denied(count(denials.total))}</h3>
                  <ul className={local.denials}>
                    {denials.recent
                      .slice(-RECENT)
                      .reverse()
                      .map((denial, i) => (
                        <li key={i}>
                          <span className="mono cut">{plainName(denial.destination, 120)}</span>
                          <span className="meta cut">{`${denial.protocol} · ${plainName(denial.rule, 60)}`}</span>
                          <Time at={denial.at} className="meta" />
                        </li>
                      ))}
                  </ul>
                </>
              )}
            </div>
          );
        }}
      </TabQuery>
    </Card>
  );
}
