// Chats that were used last.
import { useQuery } from '@tanstack/react-query';
import { chatsQuery } from '../../api';
import { stateOf, titleOf, wordOf } from '../../chats/title';
import { Card, Link, StateText, Time } from '../../ui';
import styles from './dashboard.module.css';
import { strings } from './strings';

export function RecentChats() {
  const { data } = useQuery(chatsQuery({}, 5));
  if (!data || data.chats.length === 0) return null;
  return (
    <Card title={strings.chats} actions={<Link href="/chats">{strings.allChats}</Link>} flush className="clip">
      <ul className={`${styles.recent} ${styles.chats}`}>
        {data.chats.slice(0, 5).map((chat) => (
          <li key={chat.id}>
            <Link href={`/chats/${chat.id}`} className="cut name">
              {titleOf(chat)}
            </Link>
            <span className={styles.state}>
              <StateText state={stateOf(chat)} word={wordOf(chat)} />
            </span>
            <Time at={chat.updatedAt} className="meta num right" />
          </li>
        ))}
      </ul>
    </Card>
  );
}
