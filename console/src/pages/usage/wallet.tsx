// The team's money, where the server charges for anything.
import { useQuery } from '@tanstack/react-query';
import { walletEntriesQuery, walletQuery } from '../../api';
import { plainName } from '../../format/plain';
import { QueryView, Table, Time } from '../../ui';
import { strings } from './strings';
import { money } from './sums';
import styles from './usage.module.css';

export function Wallet() {
  const wallet = useQuery(walletQuery());
  const entries = useQuery(walletEntriesQuery());
  const currency = wallet.data?.currency ?? '';
  return (
    <section className={styles.lists} aria-label={strings.wallet}>
      <QueryView query={wallet}>
        {(data) => (
          <div>
            <h2>{strings.wallet}</h2>
            <p className={`${styles.sum} num`}>{money(data.balanceMicros, data.currency)}</p>
            <p className="meta">{strings.owed}</p>
          </div>
        )}
      </QueryView>
      <QueryView query={entries}>
        {(page) =>
          page.entries.length === 0 ? (
            <p className="muted">{strings.noEntries}</p>
          ) : (
            <Table
              label={strings.ledger}
              columns={[
                { label: strings.ledger },
                { label: strings.columns.amount, right: true },
                { label: strings.wallet, right: true, wide: true },
              ]}
            >
              {page.entries.map((entry) => (
                <tr key={entry.seq}>
                  <td>
                    <Time at={entry.at} /> {strings.entries[entry.kind]}
                    {entry.memo && <span className="muted"> {plainName(entry.memo, 80)}</span>}
                  </td>
                  <td className="right num">{money(entry.amountMicros, currency)}</td>
                  <td className="right num only-wide">{money(entry.balanceMicros, currency)}</td>
                </tr>
              ))}
            </Table>
          )
        }
      </QueryView>
    </section>
  );
}
