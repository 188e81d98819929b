// The box that starts a chat, with things one could ask for.
import { useQuery } from '@tanstack/react-query';
import { type Ref, useRef, useState } from 'react';
import { useLocation, useSearchParams } from 'wouter';
import { agentsQuery, createChat, modelsQuery, type NewChat, requestKey } from '../../api';
import { Composer, type ComposerHandle } from '../../chats/composer';
import { messageOf, toolsFor, type Uploaded } from '../../chats/composer/body';
import { type Choice, useIsDemo } from '../../chats/composer/choices';
import { useDropFiles } from '../../chats/composer/use-drop';
import { visible, visibleLine } from '../../chats/state/text';
import { strings as chatStrings } from '../../chats/strings';
import { Button, ErrorBanner } from '../../ui';
import chatStyles from '../chat/chat.module.css';
import styles from './chats.module.css';
import { strings } from './strings';

const MOST = 6;

export function Start({ ref }: { ref?: Ref<ComposerHandle> }) {
  const [, navigate] = useLocation();
  const own = useRef<ComposerHandle>(null);
  // `?agent=` is a link of the page of agents.
  const [asked] = useSearchParams();
  const [choice, setChoice] = useState<Choice>(() => ({ model: '', agentId: asked.get('agent') ?? '', sandbox: true }));
  const [error, setError] = useState<unknown>(null);
  // The same message is sent once, however often one tries.
  const sent = useRef<{ body: string; key: string } | null>(null);
  const suggestions = useSuggestions(choice.agentId);
  const isDemo = useIsDemo(choice.model || undefined);
  const isOver = useDropFiles((files) => own.current?.uploads.add(files));

  async function start(text: string, files: Uploaded[]): Promise<void> {
    const tools = toolsFor(choice.sandbox, null);
    const body: NewChat = {
      ...messageOf(text, files),
      ...(choice.model ? { model: choice.model } : {}),
      ...(choice.agentId ? { agentId: choice.agentId } : {}),
      ...(tools ? { tools } : {}),
    };
    const said = JSON.stringify(body);
    if (sent.current?.body !== said) sent.current = { body: said, key: requestKey() };
    setError(null);
    try {
      const { chat } = await createChat(body, sent.current.key);
      navigate(`/chats/${chat.id}`);
    } catch (cause) {
      setError(cause);
      throw cause;
    }
  }
  return (
    <section className={styles.start} aria-label={strings.lead}>
      <h2 className={styles.lead}>{strings.lead}</h2>
      <Composer
        ref={(handle) => {
          own.current = handle;
          if (typeof ref === 'function') ref(handle);
          else if (ref) ref.current = handle;
        }}
        name="new"
        choice={choice}
        onChoice={setChoice}
        busy={false}
        autoFocus
        placeholder={chatStrings.placeholder}
        onSend={(text, files) => start(text, files)}
      />
      {isDemo && <p className="meta">{chatStrings.demoLine}</p>}
      {error !== null && <ErrorBanner error={error} lead={`${strings.startFailed}.`} />}
      {suggestions.length > 0 && (
        <ul className={styles.suggestions} aria-label={strings.suggestions}>
          {suggestions.map((text, i) => (
            <li key={i}>
              <Button size="sm" onPress={() => own.current?.setText(visible(text, 4000))}>
                <span className="cut">{visibleLine(text, 160)}</span>
              </Button>
            </li>
          ))}
        </ul>
      )}
      {isOver && <div className={chatStyles.drop}>{chatStrings.drop}</div>}
    </section>
  );
}

/** Those of the chosen agent; else what the demo can do, if it is the model. */
function useSuggestions(agentId: string): string[] {
  const { data: models } = useQuery(modelsQuery());
  const { data: agents } = useQuery(agentsQuery());
  const agent = agents?.agents.find((one) => one.id === agentId);
  if (agent && agent.suggestions.length > 0) return agent.suggestions.slice(0, MOST);
  const others = (agents?.agents ?? []).flatMap((one) => one.suggestions);
  return [...new Set([...(models?.suggestions ?? []), ...(agent ? [] : others)])].slice(0, MOST);
}
