// Nothing there yet: what it is, one button, one command. And: nothing that matches.
import type { ReactNode } from 'react';
import { Button } from './button';
import { CopyButton } from './copy';

export interface EmptyProps {
  title: string;
  /** One sentence on what it is. */
  children: ReactNode;
  /** One primary button. */
  action?: ReactNode;
  /** One command that does the same. */
  command?: string;
}

export function EmptyState({ title, children, action, command }: EmptyProps) {
  return (
    <section className="card empty-card">
      <div className="awning" aria-hidden="true" />
      <div className="empty">
        <h2>{title}</h2>
        <p>{children}</p>
        {action}
        {command && (
          <span className="row meta">
            {action ? 'or' : ''} <code>{command}</code>
            <CopyButton text={command} label="Copy the command" />
          </span>
        )}
      </div>
    </section>
  );
}

export function NoMatch({ onClear, children = 'No match' }: { onClear?: () => void; children?: ReactNode }) {
  return (
    <div className="empty">
      <span>{children}</span>
      {onClear && <Button onPress={onClear}>Clear filters</Button>}
    </div>
  );
}
