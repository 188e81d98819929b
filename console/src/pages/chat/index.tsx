import { useParams } from 'wouter';
import { isApiError } from '../../api';
import { useChat } from '../../chats/live/use-chat';
import { titleOf } from '../../chats/title';
import { ButtonLink, EmptyState, ErrorBanner, Page, SkeletonLines, useDocumentTitle } from '../../ui';
import styles from './chat.module.css';
import { Open } from './open';
import { strings } from './strings';

export default function ChatPage() {
  const { id = '' } = useParams<{ id: string }>();
  return <Known key={id} id={id} />;
}

function Known({ id }: { id: string }) {
  const chat = useChat(id);
  const { error, view, store } = chat;
  useDocumentTitle(view.chat ? titleOf(view.chat) : strings.conversation);
  if (isApiError(error) && error.code === 404) {
    return (
      <Page title={strings.goneTitle} narrow>
        <EmptyState title={strings.goneTitle} action={<ButtonLink href="/chats">{strings.all}</ButtonLink>}>
          {strings.goneText}
        </EmptyState>
      </Page>
    );
  }
  if (!view.chat) {
    return (
      <div className={styles.loading}>
        {error ? <ErrorBanner error={error} onRetry={() => void store.load()} /> : <SkeletonLines lines={6} />}
      </div>
    );
  }
  return <Open chat={chat} known={view.chat} />;
}
