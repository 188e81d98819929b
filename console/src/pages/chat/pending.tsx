// Messages that the server has not taken yet.
import { FileText } from 'lucide-react';
import convStyles from '../../chats/conversation/conversation.module.css';
import { visible, visibleLine } from '../../chats/state/text';
import { strings } from '../../chats/strings';
import { Button, messageOf, StateDot } from '../../ui';
import styles from './chat.module.css';
import type { Sending } from './use-send';

export function Pending({ sending, onDiscard }: { sending: Sending; onDiscard: (text: string) => void }) {
  return sending.outgoing.map((one) => (
    <div key={one.key} className={convStyles.from}>
      <div className={convStyles.you} data-sending={one.state === 'sending' || undefined}>
        {one.text && <p className={convStyles.plain}>{visible(one.text, 262_144)}</p>}
        {one.files.length > 0 && (
          <div className="row wrap">
            {one.files.map((name, i) => (
              <span key={i} className={convStyles.badge}>
                <FileText className="lucide s" />
                <span className="cut">{visibleLine(name, 120)}</span>
              </span>
            ))}
          </div>
        )}
      </div>
      {one.state === 'sending' ? (
        <span className="meta">{strings.sending}</span>
      ) : (
        <div className={styles.unsent} role="alert">
          <StateDot state="failed" />
          <span>
            {strings.notSent} {messageOf(one.error)}
          </span>
          <Button size="sm" onPress={() => sending.again(one.key)}>
            {strings.again}
          </Button>
          <Button
            size="sm"
            look="quiet"
            onPress={() => {
              onDiscard(one.text);
              sending.discard(one.key);
            }}
          >
            {strings.discard}
          </Button>
        </div>
      )}
    </div>
  ));
}
