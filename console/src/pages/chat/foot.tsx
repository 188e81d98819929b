// The line under the box: how full the model's context is, what it cost, and what the model is.
import { costText } from '../../chats/composer/body';
import { useIsDemo } from '../../chats/composer/choices';
import { SteerHint } from '../../chats/composer/queue';
import type { OpenChat } from '../../chats/live/use-chat';
import { strings } from '../../chats/strings';
import styles from './chat.module.css';

export function Foot({ chat: { view, lost } }: { chat: OpenChat }) {
  const { chat, lastUsage } = view;
  const isDemo = useIsDemo(chat?.model);
  if (!chat) return null;
  // During a turn the messages know it before the chat does.
  const tokens = view.active && lastUsage ? lastUsage.inputTokens + lastUsage.outputTokens : chat.contextTokens;
  const percent = chat.contextWindow > 0 ? Math.min(100, Math.round((tokens / chat.contextWindow) * 100)) : 0;
  const cost = costText(chat.usage.costMicros);
  return (
    <div className={`row meta num ${styles.foot}`}>
      <span>{strings.context(percent)}</span>
      <span>
        <span className="sr">{strings.cost}: </span>
        {cost ?? strings.unpriced}
      </span>
      {view.active?.status === 'running' && <SteerHint />}
      <span className="grow" />
      <span role="status">{lost ? <span className={styles.lost}>{strings.reconnecting}</span> : null}</span>
      {isDemo && !lost && <span>{strings.demoLine}</span>}
    </div>
  );
}
