// What this server is and can do, for someone who has just started it; and what to do next.
import { useQuery } from '@tanstack/react-query';
import { statusQuery } from '../../api';
import type { State } from '../../format/sandbox';
import { mib, plural } from '../../format/size';
import { CodeBlock, SkeletonLines, StateDot } from '../../ui';
import { pythonSnippet } from '../dashboard/sdk';
import styles from './facts.module.css';
import { strings } from './strings';

interface Fact {
  state: State;
  title: string;
  text: string;
}

function useFacts(): Fact[] | null {
  const { data: status } = useQuery(statusQuery());
  if (!status) return null;
  const isolation = status.isolations?.find((one) => one.default)?.name ?? status.backend;
  const isVm = /vm|kvm|firecracker/i.test(isolation);
  const facts: Fact[] = [
    { state: 'done', title: strings.backend(isolation), text: isVm ? strings.backendVmText : strings.backendText },
  ];
  if (status.machine) {
    facts.push({
      state: 'done',
      title: strings.machine(plural(status.machine.cpuCount, 'core'), mib(status.machine.memoryMB)),
      text: status.storage ? strings.machineText(mib(status.storage.freeMB)) : '',
    });
  }
  if (status.capabilities) {
    const memory = status.capabilities.pauseMemory;
    facts.push({
      state: memory ? 'done' : 'stopped',
      title: memory ? strings.pause : strings.pauseDisk,
      text: memory ? strings.pauseText : strings.pauseDiskText,
    });
  }
  if (/^(localhost|127\.|\[)/.test(location.hostname)) {
    facts.push({ state: 'waiting', title: strings.noDomain, text: strings.noDomainText });
  }
  return facts;
}

export function Facts() {
  const facts = useFacts();
  return (
    <>
      <section className="stack">
        <h2>{strings.server}</h2>
        {facts ? (
          <ul className={styles.facts}>
            {facts.map((fact) => (
              <li key={fact.title}>
                <StateDot state={fact.state} />
                <div>
                  <div>{fact.title}</div>
                  <div className="meta">{fact.text}</div>
                </div>
              </li>
            ))}
          </ul>
        ) : (
          <SkeletonLines lines={5} />
        )}
      </section>
      <hr />
      <section className="stack">
        <h2>{strings.next}</h2>
        <ol className={styles.steps}>
          <li>
            <span className={styles.number}>1</span>
            <div>
              <b>{strings.steps.create}</b>
              <div className="meta">{strings.steps.createText}</div>
            </div>
          </li>
          <li>
            <span className={styles.number}>2</span>
            <div>
              <b>{strings.steps.call}</b>
              <div className={styles.code}>
                <CodeBlock text={pythonSnippet} />
              </div>
            </div>
          </li>
          <li>
            <span className={styles.number}>3</span>
            <div>
              <b>{strings.steps.build}</b>
              <div className="meta">{strings.steps.buildText}</div>
            </div>
          </li>
        </ol>
      </section>
    </>
  );
}
