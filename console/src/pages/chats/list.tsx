// Chats that were used last, first.
import { Ellipsis, Pencil, Trash2 } from 'lucide-react';
import { useEffect, useEffectEvent, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import type { Chat } from '../../api';
import { DeleteChat, RenameChat } from '../../chats/dialogs';
import { visibleLine } from '../../chats/state/text';
import { strings as chatStrings } from '../../chats/strings';
import { stateOf, titleOf, wordOf } from '../../chats/title';
import { Button, ErrorBanner, IconButton, Link, Menu, StateText, Time } from '../../ui';
import styles from './chats.module.css';
import { strings } from './strings';

export function ChatList({ chats, label, acts = true }: { chats: readonly Chat[]; label: string; acts?: boolean }) {
  const [asked, setAsked] = useState<{ kind: 'rename' | 'delete'; chat: Chat } | null>(null);
  return (
    <>
      <ul className={styles.list} aria-label={label}>
        {chats.map((chat) => (
          <Row
            key={chat.id}
            chat={chat}
            onRename={acts ? () => setAsked({ kind: 'rename', chat }) : undefined}
            onDelete={() => setAsked({ kind: 'delete', chat })}
          />
        ))}
      </ul>
      {asked?.kind === 'rename' && <RenameChat chat={asked.chat} onClose={() => setAsked(null)} />}
      {asked?.kind === 'delete' && (
        <DeleteChat chat={asked.chat} onClose={() => setAsked(null)} onDone={() => setAsked(null)} />
      )}
    </>
  );
}

function Row({ chat, onRename, onDelete }: { chat: Chat; onRename?: () => void; onDelete: () => void }) {
  const [, navigate] = useLocation();
  const title = titleOf(chat);
  return (
    <li>
      <Link href={`/chats/${chat.id}`} className={`cut ${styles.title}`}>
        {title}
      </Link>
      <span className={styles.status}>
        <StateText state={stateOf(chat)} word={wordOf(chat)} />
      </span>
      <span className="only-wide mono cut muted">{visibleLine(chat.model, 60)}</span>
      <Time at={chat.updatedAt} className="meta num right" />
      {onRename && (
        <Menu
          label={strings.menu(title)}
          trigger={
            <IconButton size="sm" label={strings.menu(title)}>
              <Ellipsis />
            </IconButton>
          }
          items={[
            { label: strings.open, onAction: () => navigate(`/chats/${chat.id}`) },
            { label: chatStrings.rename, icon: <Pencil />, onAction: onRename },
            'separator',
            { label: chatStrings.remove1, icon: <Trash2 />, danger: true, onAction: onDelete },
          ]}
        />
      )}
    </li>
  );
}

/** The next page is fetched when one comes near the end. */
export function More({
  count,
  busy,
  error,
  onMore,
}: {
  count: number;
  busy: boolean;
  error: unknown;
  onMore: () => void;
}) {
  const mark = useRef<HTMLDivElement>(null);
  const more = useEffectEvent(onMore);
  // biome-ignore lint/correctness/useExhaustiveDependencies: an observer tells of changes only; a new one looks again
  useEffect(() => {
    const element = mark.current;
    if (!element || error !== null) return;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && more(), {
      root: element.closest('[data-scroller]'),
      rootMargin: '600px 0px',
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [count, error]);
  return (
    <div ref={mark} className={styles.more}>
      {error !== null ? (
        <ErrorBanner error={error} onRetry={onMore} />
      ) : busy ? (
        <span className="meta">{strings.loadingMore}</span>
      ) : (
        <Button look="quiet" size="sm" onPress={onMore}>
          {strings.more}
        </Button>
      )}
    </div>
  );
}
