// The newest lines of a service, as they come.
import { useEffect, useRef, useState } from 'react';
import type { Service } from '../../../api';
import { plain, plainName } from '../../../format/plain';
import { serviceStatus } from '../../../format/service';
import { bytes } from '../../../format/size';
import { Button, ErrorBanner } from '../../../ui';
import styles from './services.module.css';
import { strings } from './strings';
import { MOST_LINES } from './tail';
import { useServiceLog } from './use-log';

const words = strings.logs;
/** Pixels from the end at which somebody still follows. */
const NEAR = 24;

export function ServiceLog({ service }: { service: Service }) {
  const run = `${service.since} ${service.restarts} ${service.state === 'suspended'}`;
  const { tail, end, error, lost, retry } = useServiceLog(service.id, run);
  const box = useRef<HTMLPreElement>(null);
  const [follows, setFollows] = useState(true);
  const toEnd = () => box.current?.scrollTo({ top: box.current.scrollHeight });
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines are what moves it
  useEffect(() => {
    if (follows) toEnd();
  }, [tail, follows]);
  function onScroll(): void {
    const it = box.current;
    if (it) setFollows(it.scrollHeight - it.scrollTop - it.clientHeight < NEAR);
  }
  const name = plainName(service.name, 40);
  const known = tail.dropped > 0 || tail.cut;
  return (
    <div className={styles.log}>
      {error !== null && <ErrorBanner error={error} onRetry={retry} />}
      {known && (
        <p className="meta num">
          {tail.dropped > 0 ? words.dropped(bytes(tail.dropped)) : words.more(String(MOST_LINES))}
        </p>
      )}
      {(tail.lines.length > 0 || error === null) && (
        <pre
          ref={box}
          className={styles.lines}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
          tabIndex={0}
          role="log"
          aria-live="off"
          aria-label={strings.logOf(name)}
          onScroll={onScroll}
        >
          {tail.lines.length > 0 ? tail.lines.join('\n') : end ? '' : words.waiting}
        </pre>
      )}
      <div className="row wrap">
        {lost && <span className="meta">{words.lost}</span>}
        {end && (
          <span className="meta">
            {words.ended(
              serviceStatus({ ...service, state: end.state }).word.toLowerCase(),
              end.reason ? plain(end.reason, 300) : null,
            )}
          </span>
        )}
        {!follows && (
          <Button size="sm" onPress={() => setFollows(true)}>
            {words.follow}
          </Button>
        )}
      </div>
    </div>
  );
}
