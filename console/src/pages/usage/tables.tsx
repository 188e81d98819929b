// The numbers of the chart, as tables.
import type { UsageEntry, UsageKind, UsageSubject } from '../../api';
import { plainName } from '../../format/plain';
import { Link, Table } from '../../ui';
import { strings } from './strings';
import { figure, type GroupBy, kinds, lines, money } from './sums';
import styles from './usage.module.css';

const words = strings.columns;
const ORDER = Object.keys(strings.kinds) as UsageKind[];

export interface TableProps {
  rows: readonly UsageEntry[];
  /** Null where nothing costs anything. */
  currency: string | null;
}

export function KindTable({ rows, currency }: TableProps) {
  const shown = kinds(rows, ORDER);
  const total = shown.reduce((sum, line) => sum + line.cost, 0);
  const cost = currency ? [{ label: words.cost, right: true }] : [];
  return (
    <Table
      label={strings.title}
      columns={[{ label: strings.groups.kind }, { label: words.amount, right: true, wide: true }, ...cost]}
    >
      {shown.map((line) => (
        <tr key={line.kind}>
          <td className={styles.name}>
            {strings.kinds[line.kind]}
            <div className="meta num only-small">
              {figure(line.amount)} {strings.units[line.kind]}
            </div>
          </td>
          <td className="right num only-wide">
            {figure(line.amount)} {strings.units[line.kind]}
          </td>
          {currency && <td className="right num">{money(line.cost, currency)}</td>}
        </tr>
      ))}
      {currency && (
        <tr>
          <td>
            <b>{strings.total}</b>
          </td>
          <td className="only-wide" />
          <td className="right num">
            <b>{money(total, currency)}</b>
          </td>
        </tr>
      )}
    </Table>
  );
}

export function GroupTable({ rows, by, currency }: TableProps & { by: GroupBy }) {
  const cost = currency ? [{ label: words.cost, right: true }] : [];
  return (
    <Table
      label={strings.title}
      columns={[
        { label: strings.groups[by] },
        { label: strings.kinds.vcpu, right: true },
        { label: words.memory, right: true, wide: true },
        { label: words.disk, right: true, wide: true },
        { label: words.tokens, right: true, wide: true },
        ...cost,
      ]}
    >
      {lines(rows, by).map((line) => (
        <tr key={line.key}>
          <td className="cut">
            <Name id={line.key} by={by} subjectKind={line.subjectKind} />
          </td>
          <td className="right num">{figure(line.vcpu)} vCPU-h</td>
          <td className="right num only-wide">{figure(line.memory)} GiB-h</td>
          <td className="right num only-wide">{figure(line.disk)} GiB-h</td>
          <td className="right num only-wide">{figure(line.tokens)}</td>
          {currency && <td className="right num">{money(line.cost, currency)}</td>}
        </tr>
      ))}
    </Table>
  );
}

function Name({ id, by, subjectKind }: { id: string; by: GroupBy; subjectKind?: UsageSubject | null | undefined }) {
  if (by === 'model') return id === '' ? strings.noModel : plainName(id, 80);
  if (subjectKind === 'sandbox') return <Link href={`/sandboxes/${encodeURIComponent(id)}/usage`}>{id}</Link>;
  if (subjectKind === 'chat') return <Link href={`/chats/${encodeURIComponent(id)}`}>{id}</Link>;
  return (
    <>
      {id} {subjectKind && <span className="muted">{strings.subjects[subjectKind]}</span>}
    </>
  );
}
