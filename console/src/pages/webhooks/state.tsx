// Whether a webhook sends, and what waits for it.
import type { Webhook } from '../../api';
import { StateText } from '../../ui';
import { strings } from './strings';

export function WebhookState({ webhook }: { webhook: Webhook }) {
  const pending = webhook.pending ?? 0;
  const dropped = webhook.dropped ?? 0;
  if (!webhook.enabled) return <StateText state="stopped" word={strings.off} />;
  const notes = [pending > 0 && strings.waiting(pending), dropped > 0 && strings.dropped(dropped)].filter(Boolean);
  return (
    <StateText
      state={pending > 0 ? 'waiting' : 'running'}
      word={strings.sending}
      detail={notes.length > 0 ? notes.join(', ') : null}
    />
  );
}
