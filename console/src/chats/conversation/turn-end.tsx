// How a turn ended, where it did not end well.
import { Lightbulb, TriangleAlert } from 'lucide-react';
import { Button } from '../../ui';
import { useActions } from '../actions';
import { sentence } from '../state/text';
import type { TurnView } from '../state/types';
import { strings } from '../strings';
import styles from './conversation.module.css';

export function TurnEnd({ turnId, turn, isLast }: { turnId: string; turn: TurnView; isLast: boolean }) {
  const { retry } = useActions();
  if (turn.status !== 'failed' && turn.status !== 'interrupted') return null;
  const { fault, reason } = turn;
  const why = reason ? strings.reasons[reason] : undefined;
  const message = fault
    ? sentence(fault.message)
    : (why ?? (turn.status === 'interrupted' ? strings.interruptedTurn : strings.failedTurn));
  const hint = fault?.hint ? sentence(fault.hint, 1000) : strings.failedHint;
  return (
    <div className={`banner ${styles.turnEnd}`} data-state="failed" role="group" aria-label={strings.turnFailed}>
      <TriangleAlert />
      <div className="grow">
        {message}
        <div className={styles.hint}>
          <Lightbulb className="lucide s" />
          {hint}
        </div>
      </div>
      {isLast && (
        <Button size="sm" onPress={() => retry(turnId)}>
          {strings.again}
        </Button>
      )}
    </div>
  );
}
