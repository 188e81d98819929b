// A person's message, and a run of the model's.
import { Brain, ChevronRight, GitFork, RotateCcw } from 'lucide-react';
import { memo, useMemo, useState } from 'react';
import { Button, CopyButton, StateDot, Time } from '../../ui';
import { useActions, useLookup } from '../actions';
import { Markdown } from '../markdown';
import { type Block, blocksOf, textOf } from '../state/blocks';
import { visible, visibleLine } from '../state/text';
import { isDone, type MessageView } from '../state/types';
import { strings } from '../strings';
import { Ask } from './ask';
import { Cards, FileBadge } from './cards';
import styles from './conversation.module.css';
import { Tools } from './tools';

export const UserMessage = memo(function UserMessage({ message }: { message: MessageView }) {
  const { restore, fork } = useActions();
  const { checkpoints, idle } = useLookup();
  const text = textOf(message);
  const files = message.content.filter(
    (part) => part.type === 'file' || part.type === 'image' || part.type === 'screenshot',
  );
  return (
    <div className={styles.from}>
      <div className={styles.you}>
        <span className="sr">{strings.you}: </span>
        {text && (
          <p className={styles.plain} dir="auto">
            {visible(text, 262_144)}
          </p>
        )}
        {files.length > 0 && (
          <div className="row wrap">
            {files.map((part, i) => (
              <FileBadge
                key={i}
                id={part.attachmentId}
                kind={part.type}
                name={
                  part.type === 'file'
                    ? part.name
                    : part.type === 'screenshot' && part.path
                      ? strings.screenshotOf(visibleLine(part.path, 80))
                      : undefined
                }
              />
            ))}
          </div>
        )}
      </div>
      <div className={styles.acts}>
        <Time at={message.createdAt} className="meta num" />
        <span className="grow" />
        {text && <CopyButton text={text} label={strings.copy} />}
        {checkpoints.has(message.id) && (
          <Button look="quiet" size="sm" isDisabled={!idle} onPress={() => restore(message)}>
            <RotateCcw />
            {strings.restore}
          </Button>
        )}
        <Button look="quiet" size="sm" isDisabled={!idle} onPress={() => fork(message)}>
          <GitFork />
          {strings.fork}
        </Button>
      </div>
    </div>
  );
});

const sameMessages = (a: readonly MessageView[], b: readonly MessageView[]) =>
  a.length === b.length && a.every((message, i) => message === b[i]);

export const Run = memo(
  function Run({ messages }: { messages: readonly MessageView[] }) {
    const blocks = useMemo(() => blocksOf(messages), [messages]);
    const last = messages.at(-1);
    const waits = last?.status === 'streaming' && last.content.length === 0;
    const done = last?.status === 'complete' && last.calls.every(isDone);
    const text = done ? textOf(last) : '';
    return (
      <div className={styles.model}>
        {blocks.map((block) => (
          <BlockView key={block.key} block={block} />
        ))}
        {waits && (
          <p className={styles.working}>
            <StateDot state="creating" />
            {strings.working}
          </p>
        )}
        {text && (
          <div className={styles.acts}>
            <CopyButton text={text} label={strings.copy} />
          </div>
        )}
      </div>
    );
  },
  (a, b) => sameMessages(a.messages, b.messages),
);

function BlockView({ block }: { block: Block }) {
  switch (block.kind) {
    case 'text':
      return <Markdown text={block.text} streaming={block.streaming} />;
    case 'reasoning':
      return <Reasoning text={block.text} streaming={block.streaming} />;
    case 'tools':
      return <Tools rows={block.rows} />;
    case 'ask':
      return <Ask call={block.call} />;
    case 'files':
      return <Cards attachments={block.attachments} services={block.services} />;
    case 'mark':
      return (
        <p className={styles.mark} data-state={block.status === 'failed' ? 'failed' : 'stopped'}>
          <StateDot state={block.status === 'failed' ? 'failed' : 'stopped'} />
          {strings.marks[block.status]}
        </p>
      );
  }
}

function Reasoning({ text, streaming }: { text: string; streaming: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <div className={styles.reasoning}>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        <ChevronRight className="lucide s" data-chevron />
        {streaming ? <StateDot state="creating" /> : <Brain className="lucide s" />}
        {streaming ? strings.thinking : strings.thought}
      </button>
      {open && <p className={styles.plain}>{visible(text, 200_000)}</p>}
    </div>
  );
}
