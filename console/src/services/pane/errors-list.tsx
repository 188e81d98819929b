// What went wrong in the page, as the page says. Shown as its text: mono and bounded.
import { X } from 'lucide-react';
import { plain } from '../../format/plain';
import { Button, IconButton, Time } from '../../ui';
import type { PageErrors } from './page-errors';
import styles from './pane.module.css';
import { strings } from './strings';

export interface ErrorsListProps {
  id: string;
  errors: PageErrors;
  onClear: () => void;
  onClose: () => void;
}

export function ErrorsList({ id, errors, onClear, onClose }: ErrorsListProps) {
  const told = errors.list.reduce((sum, one) => sum + one.count, 0);
  return (
    <section id={id} className={styles.errors} aria-label={strings.errors(errors.total)}>
      <header>
        <b>{strings.errors(errors.total)}</b>
        <span className="meta grow">{strings.errorsNote}</span>
        <Button size="sm" onPress={onClear}>
          {strings.clear}
        </Button>
        <IconButton size="sm" label={strings.hideErrors} onPress={onClose}>
          <X />
        </IconButton>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <ul tabIndex={0} aria-label={strings.errors(errors.total)}>
        {errors.list.map((one) => (
          <li key={one.key}>
            <span className="row meta">
              <span className="badge" data-state={one.kind === 'request' ? 'waiting' : 'failed'}>
                {strings.kinds[one.kind]}
              </span>
              {one.count > 1 && <span className="num">{strings.times(one.count)}</span>}
              {one.source && <span className="mono cut">{plain(one.source, 200)}</span>}
              <span className="grow" />
              <Time at={new Date(one.at).toISOString()} />
            </span>
            <pre>{plain(one.text, 2000)}</pre>
          </li>
        ))}
        {told < errors.total && <li className="meta">{strings.more(errors.total - told)}</li>}
      </ul>
    </section>
  );
}
