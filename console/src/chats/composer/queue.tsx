// Messages that wait for the running turn.
import { X } from 'lucide-react';
import { useState } from 'react';
import { cancelTurn, isApiError, type Turn } from '../../api';
import { IconButton, KeyHint, toast } from '../../ui';
import { visibleLine } from '../state/text';
import { strings } from '../strings';
import styles from './composer.module.css';

export function Queue({ chatId, turns }: { chatId: string; turns: readonly Turn[] }) {
  const [leaving, setLeaving] = useState<ReadonlySet<string>>(new Set());
  if (turns.length === 0) return null;
  async function remove(turn: Turn): Promise<void> {
    setLeaving((old) => new Set(old).add(turn.id));
    try {
      await cancelTurn(chatId, turn.id);
    } catch (error) {
      // It has begun meanwhile.
      if (!isApiError(error, 'turn_not_running')) toast.failed(strings.unqueueFailed, error);
      setLeaving((old) => new Set([...old].filter((id) => id !== turn.id)));
    }
  }
  return (
    <ul className={styles.queue} aria-label={strings.queue}>
      {turns
        .filter((turn) => !leaving.has(turn.id))
        .map((turn) => (
          <li key={turn.id}>
            <span className="badge line">{strings.queued}</span>
            <span className="cut grow muted">{visibleLine(turn.prompt, 300)}</span>
            <IconButton size="sm" label={strings.unqueue} onPress={() => remove(turn)}>
              <X />
            </IconButton>
          </li>
        ))}
    </ul>
  );
}

export function SteerHint() {
  return (
    <span className={`row meta only-wide ${styles.steer}`}>
      <KeyHint keys="mod+enter" /> {strings.steerNow}
    </span>
  );
}
