// What the machine has given away and what it has left.
import { useQuery } from '@tanstack/react-query';
import { statusQuery } from '../../api';
import { mib, plural } from '../../format/size';
import { Card, DataList, Link, Meter, QueryView, SkeletonLines } from '../../ui';
import { strings } from './strings';

export function Machine() {
  const query = useQuery(statusQuery());
  return (
    <Card title={strings.machine} actions={<Link href="/server">{strings.more}</Link>}>
      <div className="stack">
        <QueryView query={query} skeleton={<SkeletonLines lines={4} />}>
          {(status) => (
            <>
              {status.machine && (
                <>
                  <Meter
                    label={strings.cpu}
                    chart={1}
                    value={Math.min(status.machine.load, status.machine.cpuCount)}
                    max={status.machine.cpuCount}
                    text={strings.load(status.machine.load.toFixed(1), plural(status.machine.cpuCount, 'core'))}
                  />
                  <Meter
                    label={strings.used}
                    chart={2}
                    value={status.machine.memoryMB - status.machine.memoryAvailableMB}
                    max={status.machine.memoryMB}
                    text={strings.of(
                      mib(status.machine.memoryMB - status.machine.memoryAvailableMB),
                      mib(status.machine.memoryMB),
                    )}
                  />
                </>
              )}
              {status.capacity && (
                <>
                  <Meter
                    label={strings.memory}
                    chart={2}
                    value={status.capacity.memoryMB}
                    max={status.capacity.memoryLimitMB}
                    text={strings.of(mib(status.capacity.memoryMB), mib(status.capacity.memoryLimitMB))}
                  />
                  <Meter
                    label={strings.disk}
                    chart={3}
                    value={status.capacity.diskMB}
                    max={status.capacity.diskLimitMB}
                    text={strings.of(mib(status.capacity.diskMB), mib(status.capacity.diskLimitMB))}
                  />
                </>
              )}
              <DataList
                items={[
                  [strings.free, status.storage && mib(status.storage.freeMB)],
                  [strings.isolation, status.isolations?.find((one) => one.default)?.name ?? status.backend],
                  [
                    strings.version,
                    <span key="version" className="mono">
                      {status.version}
                    </span>,
                  ],
                ]}
              />
            </>
          )}
        </QueryView>
      </div>
    </Card>
  );
}
