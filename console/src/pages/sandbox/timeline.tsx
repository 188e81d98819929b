// Events of a sandbox, newest first: what, why, who, when.
import type { Event as WireEvent } from '../../api';
import { clock, day, utc } from '../../format/time';
import { StateDot, Time } from '../../ui';
import { strings } from './strings';
import styles from './timeline.module.css';
import { useNames } from './use-names';
import { eventWords } from './words/event';

export function Timeline({ events, short }: { events: readonly WireEvent[]; short?: boolean }) {
  const name = useNames();
  return (
    <ol className={short ? styles.short : styles.long} aria-label={strings.events.label}>
      {events.map((event, i) => {
        const words = eventWords(event);
        const before = events[i - 1];
        const newDay = !short && (!before || day(before.timestamp) !== day(event.timestamp));
        return (
          <li key={event.id}>
            {newDay && <h3 className={styles.day}>{day(event.timestamp)}</h3>}
            <div className={styles.event}>
              {short ? (
                <Time at={event.timestamp} className={styles.time} />
              ) : (
                <time className={styles.time} dateTime={event.timestamp} title={utc(event.timestamp)}>
                  {clock(event.timestamp)}
                </time>
              )}
              <StateDot state={words.state} />
              <span className={styles.words}>
                <b data-state={words.state === 'failed' ? 'failed' : undefined}>{words.what}</b>
                {words.why && <span className="muted">{`${words.why.startsWith('it ') ? ':' : ''} ${words.why}`}</span>}
                {words.by && <span className={styles.by}> {strings.events.by(name(words.by))}</span>}
              </span>
              {!short && <Time at={event.timestamp} className={`${styles.ago} only-wide`} />}
            </div>
          </li>
        );
      })}
    </ol>
  );
}
