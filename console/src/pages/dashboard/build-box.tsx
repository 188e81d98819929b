// "What shall be built?": starts a chat.
import { useState } from 'react';
import { useLocation } from 'wouter';
import { createChat, requestKey } from '../../api';
import { Button, ErrorBanner } from '../../ui';
import styles from './dashboard.module.css';
import { strings } from './strings';

export function BuildBox() {
  const [, navigate] = useLocation();
  const [text, setText] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  async function start(): Promise<void> {
    const prompt = text.trim();
    if (!prompt || busy) return;
    setBusy(true);
    setError(null);
    try {
      const { chat } = await createChat({ prompt }, requestKey());
      navigate(`/chats/${chat.id}`);
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  }
  return (
    <form
      className={styles.build}
      onSubmit={(event) => {
        event.preventDefault();
        void start();
      }}
    >
      <div className={styles.buildRow}>
        <textarea
          rows={1}
          aria-label={strings.build}
          placeholder={strings.build}
          value={text}
          maxLength={262_144}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
            event.preventDefault();
            void start();
          }}
        />
        <Button type="submit" isPending={busy} isDisabled={text.trim() === ''}>
          {strings.start}
        </Button>
      </div>
      {error !== null && <ErrorBanner error={error} onRetry={() => void start()} />}
    </form>
  );
}
