// A conversation: messages in order, what is on its way, and how turns ended.
import { ArrowDown, TriangleAlert } from 'lucide-react';
import { type ReactNode, useEffect, useEffectEvent, useMemo, useRef } from 'react';
import type { Attachment } from '../../api';
import { Button, ErrorBanner } from '../../ui';
import { useLookup } from '../actions';
import type { OpenChat } from '../live/use-chat';
import { artifactsByTurn } from '../state/artifacts';
import { itemsOf } from '../state/blocks';
import { sentence } from '../state/text';
import type { ChatView, TurnView } from '../state/types';
import { strings } from '../strings';
import { Announcer } from './announce';
import { Cards } from './cards';
import styles from './conversation.module.css';
import { useFollow } from './follow';
import { Run, UserMessage } from './messages';
import { TurnEnd } from './turn-end';

/** The newest are always laid out; of the others the browser does what is in sight. */
const NEWEST = 6;

export interface ConversationProps {
  chat: OpenChat;
  /** Messages that were not taken by the server yet. */
  children?: ReactNode;
  /** Changes when a person has said something: the end comes in sight. */
  said: number;
}

export function Conversation({ chat, children, said }: ConversationProps) {
  const { view, store } = chat;
  const items = useMemo(() => itemsOf(view.messages), [view.messages]);
  const { attachments } = useLookup();
  const artifacts = useMemo(() => artifactsByTurn(view.messages, attachments.values()), [view.messages, attachments]);
  const follow = useFollow(view.messages[0]?.id);
  const { toEnd } = follow;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `said` is what moves it
  useEffect(() => toEnd(), [said, toEnd]);
  return (
    <div className={styles.frame}>
      <div
        className={styles.log}
        role="log"
        aria-label={strings.conversation}
        aria-live="off"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        ref={follow.scroller}
        onScroll={follow.onScroll}
      >
        <div className={styles.content} ref={follow.content}>
          {view.more && <Older chat={chat} onMore={() => void store.older()} />}
          {items.map((item, i) => {
            const next = items[i + 1];
            const turnId = item.kind === 'user' ? item.message.turnId : item.turnId;
            const nextTurn = next && (next.kind === 'user' ? next.message.turnId : next.turnId);
            const last = item.kind === 'user' ? item.message.id : item.messages.at(-1)!.id;
            return (
              <div key={item.key} className={i < items.length - NEWEST ? styles.old : undefined} data-item>
                {item.kind === 'user' ? <UserMessage message={item.message} /> : <Run messages={item.messages} />}
                {nextTurn !== turnId && <Left files={artifacts.get(turnId)} />}
                {view.compactions
                  .filter((note) => note.after === last)
                  .map((note, n) => (
                    <p key={n} className={styles.note}>
                      {strings.compacted(note.beforeTokens, note.afterTokens)}
                    </p>
                  ))}
                {nextTurn !== turnId && (
                  <TurnEnd turnId={turnId} turn={turnOf(view, turnId, !next)} isLast={!next && view.active === null} />
                )}
              </div>
            );
          })}
          {children}
          {view.fault && (
            <div className="banner" data-state="failed">
              <TriangleAlert />
              <div className="grow">
                {sentence(view.fault.message)} {view.fault.hint && sentence(view.fault.hint, 1000)}
              </div>
            </div>
          )}
        </div>
      </div>
      {!follow.atEnd && (
        <Button className={styles.jump} size="sm" onPress={() => toEnd()}>
          <ArrowDown />
          {strings.jump}
        </Button>
      )}
      <Announcer view={view} />
    </div>
  );
}

/** Files that a turn left. */
function Left({ files }: { files: readonly Attachment[] | undefined }) {
  return files ? (
    <div className={styles.left}>
      <Cards attachments={files} services={NONE} />
    </div>
  ) : null;
}

const NONE: readonly never[] = [];
const FINE: TurnView = { status: 'complete', reason: null, fault: null };

/** A turn of which nothing was said has ended well, unless the chat says that its newest one failed. */
function turnOf(view: ChatView, turnId: string, newest: boolean): TurnView {
  const known = view.turns[turnId];
  if (known) return known;
  return newest && view.active === null && view.chat?.status === 'failed' ? { ...FINE, status: 'failed' } : FINE;
}

function Older({ chat, onMore }: { chat: OpenChat; onMore: () => void }) {
  const mark = useRef<HTMLDivElement>(null);
  const more = useEffectEvent(onMore);
  const count = chat.view.messages.length;
  // biome-ignore lint/correctness/useExhaustiveDependencies: an observer tells of changes only; a new one looks again
  useEffect(() => {
    const element = mark.current;
    if (!element || chat.olderError !== null) return;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && more(), {
      root: element.closest('[role="log"]'),
      rootMargin: '600px 0px',
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [count, chat.olderError]);
  return (
    <div ref={mark} className={styles.older}>
      {chat.olderError !== null ? (
        <ErrorBanner error={chat.olderError} onRetry={onMore} />
      ) : chat.loadingOlder ? (
        <span className="meta">{strings.loadingOlder}</span>
      ) : (
        <Button look="quiet" size="sm" onPress={onMore}>
          {strings.older}
        </Button>
      )}
    </div>
  );
}
