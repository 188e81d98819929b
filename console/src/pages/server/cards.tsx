// The parts of the page: capacity, what the server can do, protection, checks.
import { useQuery } from '@tanstack/react-query';
import { type Doctor, type DoctorCheck, doctorQuery, type ServerStatus } from '../../api';
import { plain, plainName } from '../../format/plain';
import type { State } from '../../format/sandbox';
import { mib } from '../../format/size';
import { Card, DataList, Meter, StateDot } from '../../ui';
import styles from './server.module.css';
import { strings } from './strings';

export function Capacity({ status }: { status: ServerStatus }) {
  const { capacity, storage } = status;
  const warning = storage ? (strings.storage[storage.state] ?? null) : null;
  const bar = (label: string, value: number, max: number, chart: 2 | 3) =>
    max > 0 ? (
      <Meter label={label} chart={chart} value={value} max={max} text={strings.of(mib(value), mib(max))} />
    ) : (
      <DataList items={[[label, strings.noLimit(mib(value))]]} />
    );
  return (
    <Card title={strings.capacity}>
      <div className="stack">
        {warning && (
          <div className="banner" data-state={storage?.state === 'low' ? 'waiting' : 'failed'} role="alert">
            <StateDot state={storage?.state === 'low' ? 'waiting' : 'failed'} />
            <span className="grow">{warning}</span>
          </div>
        )}
        {capacity && bar(strings.memory, capacity.memoryMB, capacity.memoryLimitMB, 2)}
        {capacity && bar(strings.disk, capacity.diskMB, capacity.diskLimitMB, 3)}
        {storage && <DataList items={[[strings.free, strings.reserve(mib(storage.freeMB), mib(storage.reserveMB))]]} />}
        {storage && storage.clamped > 0 && <p className="meta">{strings.clamped(storage.clamped)}</p>}
        <p className="meta">{strings.capacityText}</p>
      </div>
    </Card>
  );
}

function Fact({ on, words }: { on: boolean; words: readonly [string, string] }) {
  return (
    <li>
      <StateDot state={on ? 'done' : 'stopped'} />
      <span className="sr">{on ? strings.yes : strings.no}</span>
      <span className={on ? undefined : 'muted'}>{on ? words[0] : words[1]}</span>
    </li>
  );
}

export function Abilities({ status }: { status: ServerStatus }) {
  const { capabilities, isolations = [] } = status;
  return (
    <Card title={strings.can}>
      <div className="stack">
        {capabilities && (
          <ul className={styles.facts}>
            {Object.entries(strings.features).map(([name, words]) => (
              <Fact key={name} words={words} on={Boolean(capabilities[name as keyof typeof capabilities])} />
            ))}
          </ul>
        )}
        {isolations.map((one) => (
          <section key={one.name} className={styles.backend}>
            <div className="row">
              <h3 className="mono">{plainName(one.name, 40)}</h3>
              {one.default && <span className="badge accent">{strings.isDefault}</span>}
            </div>
            <p className="muted">{strings.backends[one.name] ?? strings.otherBackend}</p>
            <ul className={styles.facts}>
              <Fact on={one.pauseMemory} words={strings.features.pauseMemory ?? ['', '']} />
              <Fact on={one.checkpoint} words={strings.backend.checkpoint as [string, string]} />
              <Fact on={one.mounts} words={strings.backend.mounts as [string, string]} />
              <li>
                <StateDot state="done" />
                {strings.outOfMemory[one.outOfMemory] ?? plainName(one.outOfMemory, 60)}
              </li>
            </ul>
          </section>
        ))}
      </div>
    </Card>
  );
}

/** Servers before this field do not say what raises the level; then the hints of the checks do. */
type Report = Doctor & { raise?: string[] };

/** Nothing where the server has no such report, or this team may not see it. */
export function Protection() {
  const report = useQuery({ ...doctorQuery(), retry: false }).data as Report | undefined;
  if (!report) return null;
  const colon = report.level.indexOf(':');
  const word = colon < 0 ? report.level : report.level.slice(0, colon);
  const state: State = word === 'good' ? 'done' : word === 'none' ? 'failed' : 'waiting';
  const raise =
    report.raise ?? report.checks.filter((check) => check.hint).map((check) => `${check.name}: ${check.hint}`);
  return (
    <>
      <Card
        title={strings.protection}
        actions={
          <span className="badge" data-state={state}>
            <StateDot state={state} />
            {plainName(word, 30)}
          </span>
        }
      >
        <div className="stack">
          <p className={styles.level}>{plain(colon < 0 ? report.level : report.level.slice(colon + 1).trim(), 400)}</p>
          {raise.length > 0 && (
            <div>
              <h3>{strings.raise}</h3>
              <ol className={styles.raise}>
                {raise.map((text) => (
                  <li key={text}>{plain(text, 400)}</li>
                ))}
              </ol>
            </div>
          )}
        </div>
      </Card>
      <Card title={strings.checks} actions={<span className="meta">{strings.checksText}</span>} flush className="clip">
        {groups(report.checks).map(([group, checks]) => (
          <Group key={group} name={strings.groups[group] ?? group} checks={checks} />
        ))}
      </Card>
    </>
  );
}

function groups(checks: readonly DoctorCheck[]): [string, DoctorCheck[]][] {
  const found = new Map<string, DoctorCheck[]>();
  for (const check of checks) found.set(check.group, [...(found.get(check.group) ?? []), check]);
  return [...found];
}

const STATES: Record<string, State> = { ok: 'done', warning: 'waiting', failed: 'failed' };

/** Open where there is something to look at. */
function Group({ name, checks }: { name: string; checks: DoctorCheck[] }) {
  const bad = checks.filter((check) => check.state !== 'ok').length;
  return (
    <details className={styles.group} open={bad > 0}>
      <summary>
        <b>{name}</b>
        <span className={bad > 0 ? styles.bad : 'meta'}>
          {bad > 0 ? strings.open(bad) : strings.allFine(checks.length)}
        </span>
      </summary>
      <ul>
        {checks.map((check) => (
          <li key={check.name}>
            <StateDot state={STATES[check.state] ?? 'stopped'} />
            <div className="grow">
              <span className={styles.name}>{plainName(check.name, 60)}</span>
              <span className="sr"> {strings.states[check.state]}: </span>{' '}
              <span className="muted">{plain(check.message, 300)}</span>
              {check.hint && <div className="meta">{plain(check.hint, 400)}</div>}
            </div>
          </li>
        ))}
      </ul>
    </details>
  );
}
