// What one can do with the ticked rows, how far that is, and what did not work.
import { Ellipsis } from 'lucide-react';
import type { CSSProperties } from 'react';
import type { SandboxRow } from '../../api';
import { BulkBar, Button, Dialog, Dock, IconButton, Menu, messageOf } from '../../ui';
import { type Act, actsOfAll } from './acts';
import { ICONS } from './row-menu';
import styles from './sandboxes.module.css';
import { strings } from './strings';
import type { BulkRun, BulkSummary } from './use-acts';
import { nameOf } from './words';

/** The first of these that apply have buttons; the others are behind ⋯, and on phones all of them. */
const BUTTONS: readonly Act[] = ['pause', 'resume', 'recover', 'snapshot', 'archive'];
const MOST_BUTTONS = 3;

export interface BulkProps {
  chosen: readonly SandboxRow[];
  onAct: (act: Act, rows: SandboxRow[]) => void;
  onClear: () => void;
}

export function Bulk({ chosen, onAct, onClear }: BulkProps) {
  const acts = actsOfAll(chosen);
  const buttons = BUTTONS.filter((act) => acts.has(act)).slice(0, MOST_BUTTONS);
  const rest = [...acts.keys()].filter((act) => act !== 'kill' && !buttons.includes(act));
  const wordOf = (act: Act) => {
    const able = acts.get(act)?.length ?? 0;
    return able === chosen.length ? strings.verbs[act].verb : `${strings.verbs[act].verb} ${able}`;
  };
  const action = (act: Act) => () => onAct(act, acts.get(act) ?? []);
  const items = (list: readonly Act[]) =>
    list.map((act) => ({ id: act, label: wordOf(act), icon: ICONS[act], onAction: action(act) }));
  const killed = acts.get('kill')?.length ?? 0;
  return (
    <BulkBar count={chosen.length} label={strings.selected} onClear={onClear}>
      {buttons.map((act) => (
        <Button key={act} look="quiet" className="only-wide" onPress={action(act)}>
          {ICONS[act]}
          {wordOf(act)}
        </Button>
      ))}
      {rest.length > 0 && (
        <span className="only-wide">
          <Menu
            label={strings.more}
            trigger={
              <IconButton label={strings.more}>
                <Ellipsis />
              </IconButton>
            }
            items={items(rest)}
            placement="top end"
          />
        </span>
      )}
      {acts.size > 1 && (
        <span className="only-small">
          <Menu
            label={strings.more}
            trigger={
              <Button look="quiet">
                <Ellipsis />
                {strings.more}
              </Button>
            }
            items={items([...buttons, ...rest])}
            placement="top start"
          />
        </span>
      )}
      {killed > 0 && (
        <Button look="danger" className="quiet" onPress={action('kill')}>
          {ICONS.kill}
          {strings.killMany(killed)}
        </Button>
      )}
    </BulkBar>
  );
}

export function BulkProgress({ run, onStop }: { run: BulkRun; onStop: () => void }) {
  const { act, total, ended, failed } = run;
  const text = strings.progress(act, ended, total);
  const style = { '--v': `${(ended / Math.max(1, total)) * 100}%` } as CSSProperties;
  return (
    <Dock>
      <div className="bulk" role="status">
        <span className="num">{text}</span>
        <span
          className={`meter ${styles.progress}`}
          role="progressbar"
          aria-label={text}
          aria-valuenow={ended}
          aria-valuemin={0}
          aria-valuemax={total}
          style={style}
        >
          <i />
        </span>
        {failed > 0 && <span className={styles.bad}>{strings.failures(failed)}</span>}
        <Button look="quiet" onPress={onStop}>
          {strings.stop}
        </Button>
      </div>
    </Dock>
  );
}

const MOST_LISTED = 50;

export interface SummaryProps {
  summary: BulkSummary | null;
  onClose: () => void;
  onRetry: (act: Act, rows: SandboxRow[]) => void;
}

export function Summary({ summary, onClose, onRetry }: SummaryProps) {
  if (!summary) return null;
  const { act, total, done, failed, left } = summary;
  const rest = [strings.summaryRest(act, done), left.length > 0 ? strings.stopped(left.length) : ''];
  const again = [...failed.map((failure) => failure.item), ...left];
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={strings.summaryTitle(act, failed.length, total)}
      actions={
        <>
          <Button onPress={onClose}>{strings.close}</Button>
          <Button look="primary" onPress={() => onRetry(act, again)}>
            {strings.tryAgain}
          </Button>
        </>
      }
    >
      <p>{rest.filter(Boolean).join(' ')}</p>
      {failed.length > 0 && (
        <ul className={styles.failures}>
          {failed.slice(0, MOST_LISTED).map(({ item, error }) => (
            <li key={item.sandboxID}>
              <span className="row">
                <b className="cut">{nameOf(item)}</b>
                <span className="mono meta">{item.sandboxID}</span>
              </span>
              <span className="muted">{messageOf(error)}</span>
            </li>
          ))}
          {failed.length > MOST_LISTED && <li className="meta">{strings.andMore(failed.length - MOST_LISTED)}</li>}
        </ul>
      )}
    </Dialog>
  );
}
