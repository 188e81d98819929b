// Groups of things, with a head; pairs of names and values; a bar of a part and a whole.
import type { CSSProperties, ReactNode } from 'react';

export interface CardProps {
  title?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  /** Without padding, for lists and tables. */
  flush?: boolean;
  className?: string;
}

export function Card({ title, actions, children, flush, className }: CardProps) {
  return (
    <section className={className ? `card ${className}` : 'card'}>
      {(title || actions) && (
        <header>
          {typeof title === 'string' ? <h2>{title}</h2> : title}
          {actions && <span className="row card-actions">{actions}</span>}
        </header>
      )}
      {flush ? children : <div className="body">{children}</div>}
    </section>
  );
}

/** Names and values. Empty values are left out. */
export function DataList({ items }: { items: [string, ReactNode][] }) {
  return (
    <dl className="dl">
      {items
        .filter(([, value]) => value !== null && value !== undefined && value !== '')
        .map(([name, value]) => (
          <div className="dl-row" key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

export interface MeterProps {
  label: string;
  value: number;
  max: number;
  /** In words, beside the label: "6 of 32". */
  text: string;
  /** One of --chart-1…6: vCPU 1, memory 2, disk 3. */
  chart?: 1 | 2 | 3 | 4 | 5 | 6;
}

export function Meter({ label, value, max, text, chart = 1 }: MeterProps) {
  const part = max > 0 ? Math.min(100, Math.max(0, (value / max) * 100)) : 0;
  const style = { '--v': `${part}%`, '--mc': `var(--chart-${chart})` } as CSSProperties;
  return (
    <div className="meter-box">
      <div className="row">
        <span className="muted">{label}</span>
        <span className="num meter-text">{text}</span>
      </div>
      <div
        className="meter"
        role="meter"
        aria-label={label}
        aria-valuenow={value}
        aria-valuemin={0}
        aria-valuemax={max}
        aria-valuetext={text}
        style={style}
      >
        <i />
      </div>
    </div>
  );
}
