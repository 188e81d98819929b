// What a newcomer does first. Ticks come by themselves, from what there is.
import { useQuery } from '@tanstack/react-query';
import { X } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { chatsQuery, eventsQuery, keysQuery, templatesQuery } from '../../api';
import { ButtonLink, Card, IconButton, Snippets, StateDot } from '../../ui';
import styles from './dashboard.module.css';
import { environment, javascriptSnippet, pythonSnippet } from './sdk';
import { strings } from './strings';

const HIDDEN = 'cabana.first-steps.hidden';

function isHidden(): boolean {
  try {
    return localStorage.getItem(HIDDEN) === '1';
  } catch {
    return false;
  }
}

interface Step {
  title: string;
  text: string;
  done: boolean;
  action?: ReactNode;
  body?: ReactNode;
}

function useSteps(hasSandbox: boolean): Step[] | null {
  const events = useQuery(eventsQuery({ limit: 1 }));
  const keys = useQuery(keysQuery());
  const templates = useQuery(templatesQuery());
  const chats = useQuery(chatsQuery({}, 5));
  if (events.isPending || keys.isPending || templates.isPending) return null;
  const words = strings.steps;
  return [
    {
      title: words.create,
      text: words.createText,
      done: hasSandbox || (events.data?.length ?? 0) > 0,
      action: (
        <ButtonLink href="/create" size="sm">
          {words.createAction}
        </ButtonLink>
      ),
    },
    {
      title: words.chat,
      text: words.chatText,
      done: (chats.data?.chats.length ?? 0) > 0,
      action: (
        <ButtonLink href="/chats" size="sm">
          {words.chatAction}
        </ButtonLink>
      ),
    },
    {
      title: words.key,
      text: words.keyText,
      // The first key is made with the server; a second one is somebody's own.
      done: (keys.data?.length ?? 0) > 1,
      action: (
        <ButtonLink href="/settings/keys" size="sm">
          {words.keyAction}
        </ButtonLink>
      ),
    },
    {
      title: words.call,
      text: words.callText,
      done: keys.data?.some((key) => key.lastUsed) ?? false,
      body: (
        <Snippets
          snippets={[
            { label: 'Python', text: `${environment()}\n\n# pip install e2b\n${pythonSnippet}` },
            { label: 'JavaScript', text: `${environment()}\n\n// npm install e2b\n${javascriptSnippet}` },
            { label: 'CLI', text: 'cabana run -- uname -a' },
          ]}
        />
      ),
    },
    {
      title: words.template,
      text: words.templateText,
      done: (templates.data?.items.length ?? 0) > 1,
      action: (
        <ButtonLink href="/templates" size="sm">
          {words.templateAction}
        </ButtonLink>
      ),
    },
  ];
}

export function FirstSteps({ hasSandbox }: { hasSandbox: boolean }) {
  const [hidden, setHidden] = useState(isHidden);
  const steps = useSteps(hasSandbox);
  if (hidden || !steps) return null;
  const done = steps.filter((step) => step.done).length;
  if (done === steps.length) return null;
  function hide(): void {
    setHidden(true);
    try {
      localStorage.setItem(HIDDEN, '1');
    } catch {
      // Storage is off: hidden until the next reload.
    }
  }
  return (
    <Card
      title={strings.first}
      flush
      actions={
        <>
          <span className="meta num">{strings.done(done, steps.length)}</span>
          <IconButton label={strings.hide} size="sm" onPress={hide}>
            <X />
          </IconButton>
        </>
      }
    >
      <ol className={styles.steps}>
        {steps.map((step) => (
          <li key={step.title} data-done={step.done || undefined}>
            <span className={styles.tick}>{step.done ? <StateDot state="done" /> : null}</span>
            <div className="grow">
              <div className={styles.stepTitle}>
                {step.title}
                {step.done && <span className="sr"> (done)</span>}
              </div>
              {!step.done && <div className="meta">{step.text}</div>}
              {!step.done && step.body}
            </div>
            {!step.done && step.action}
          </li>
        ))}
      </ol>
    </Card>
  );
}
