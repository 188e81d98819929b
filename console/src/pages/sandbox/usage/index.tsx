// What a sandbox used: sums of its life, and when it used how much.
import { useQuery } from '@tanstack/react-query';
import { sandboxUsageQuery } from '../../../api';
import { mib } from '../../../format/size';
import { cli, curl } from '../../../format/snippet';
import { QueryView, SkeletonRows, SnippetMenu, Table, Time } from '../../../ui';
import { strings } from '../../usage/strings';
import { KindTable } from '../../usage/tables';
import styles from '../sandbox.module.css';
import type { TabProps } from '../tab';

const words = strings.tab;

export default function Usage({ sandbox }: TabProps) {
  const id = sandbox.sandboxID;
  const query = useQuery(sandboxUsageQuery(id));
  return (
    <div className={styles.panel}>
      <div className="row">
        <span className="grow" />
        <SnippetMenu api={curl('GET', `/sandboxes/${id}/usage`)} cli={cli('usage', '--sandbox', id)} />
      </div>
      <QueryView query={query} skeleton={<SkeletonRows rows={5} />}>
        {(usage) =>
          usage.intervals.length === 0 ? (
            <section className="card">
              <div className="empty">
                <h2>{words.none}</h2>
                <p>{words.noneText}</p>
              </div>
            </section>
          ) : (
            <>
              {usage.totals.length > 0 && (
                <KindTable
                  rows={usage.totals}
                  currency={usage.totals.some((row) => row.costMicros !== 0) ? usage.currency : null}
                />
              )}
              <Table
                label={words.intervals}
                columns={[
                  { label: words.kind },
                  { label: words.quantity, right: true },
                  { label: words.from },
                  { label: words.to, wide: true },
                ]}
              >
                {usage.intervals.map((interval) => (
                  <tr key={interval.id}>
                    <td>{strings.kinds[interval.kind]}</td>
                    <td className="right num">
                      {interval.kind === 'vcpu' ? interval.quantity : mib(interval.quantity)}
                    </td>
                    <td>
                      <Time at={interval.openedAt} />
                    </td>
                    <td className="only-wide">
                      {interval.closedAt ? (
                        <Time at={interval.closedAt} />
                      ) : (
                        <span className="muted">{words.goesOn}</span>
                      )}
                    </td>
                  </tr>
                ))}
              </Table>
              {usage.truncated && <p className="meta">{words.truncated}</p>}
            </>
          )
        }
      </QueryView>
    </div>
  );
}
