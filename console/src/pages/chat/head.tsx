// The line above the conversation: its title, what one can do with the chat, its computer, and the pane.
import {
  ChevronDown,
  Code,
  Copy,
  CopyPlus,
  GitFork,
  MessageCircle,
  PanelRight,
  Pencil,
  Share2,
  Trash2,
} from 'lucide-react';
import type { Chat, ChatSandbox } from '../../api';
import { visibleLine } from '../../chats/state/text';
import { strings as chatStrings } from '../../chats/strings';
import { titleOf } from '../../chats/title';
import { type State, statusOf } from '../../format/sandbox';
import { Button, copyText, IconButton, Link, Menu, Segmented, StateDot, toast } from '../../ui';
import styles from './chat.module.css';
import { strings } from './strings';
import type { Pane } from './use-pane';

export interface Asking {
  kind: 'rename' | 'delete' | 'snippets' | 'share';
}

export interface HeadProps {
  chat: Chat;
  sandboxes: readonly ChatSandbox[];
  pane: Pane;
  /** A dialog is wanted. */
  onAsk: (asked: Asking) => void;
  onFork: () => void;
  /** The same messages and artifacts, without the computer. */
  onCopy: () => void;
}

export function Head({ chat, sandboxes, pane, onAsk, onFork, onCopy }: HeadProps) {
  const title = titleOf(chat);
  return (
    <div className={`pane-head ${styles.head}`}>
      <h1 className="cut" title={title}>
        {title}
      </h1>
      <Menu
        label={strings.menu}
        placement="bottom start"
        trigger={
          <IconButton size="sm" label={strings.menu}>
            <ChevronDown />
          </IconButton>
        }
        items={[
          { label: chatStrings.rename, icon: <Pencil />, onAction: () => onAsk({ kind: 'rename' }) },
          { label: strings.share.menu, icon: <Share2 />, onAction: () => onAsk({ kind: 'share' }) },
          { label: strings.forkAll, icon: <GitFork />, disabled: chat.turnId !== null, onAction: () => onFork() },
          { label: strings.copyChat, icon: <CopyPlus />, disabled: chat.turnId !== null, onAction: () => onCopy() },
          {
            label: strings.copyId,
            icon: <Copy />,
            onAction: () => void copyText(chat.id).then(() => toast.done(strings.copied)),
          },
          { label: strings.snippets, icon: <Code />, onAction: () => onAsk({ kind: 'snippets' }) },
          'separator',
          { label: strings.all, icon: <MessageCircle />, href: '/chats' },
          'separator',
          { label: chatStrings.remove1, icon: <Trash2 />, danger: true, onAction: () => onAsk({ kind: 'delete' }) },
        ]}
      />
      {chat.access === 'shared' && (
        <Button size="sm" look="quiet" onPress={() => onAsk({ kind: 'share' })}>
          <Share2 />
          <span className="only-wide">{strings.share.shared}</span>
          <span className="sr only-small">{strings.share.shared}</span>
        </Button>
      )}
      <span className="grow" />
      {sandboxes.slice(0, 3).map((sandbox) => (
        <Computer key={sandbox.name} sandbox={sandbox} />
      ))}
      {pane.open && (
        <span className="only-small">
          <Segmented
            size="sm"
            label={strings.side}
            value={pane.side}
            onChange={pane.setSide}
            options={[
              { id: 'chat', label: strings.sides.chat },
              { id: 'pane', label: strings.sides.pane },
            ]}
          />
        </span>
      )}
      {!pane.open && (
        <IconButton size="sm" label={strings.showPane} onPress={pane.toggle}>
          <PanelRight />
        </IconButton>
      )}
    </div>
  );
}

function Computer({ sandbox }: { sandbox: ChatSandbox }) {
  const { state, word } = statusOf({
    sandboxID: sandbox.sandboxId,
    state: sandbox.state as 'running',
    startedAt: new Date().toISOString(),
  });
  const name = visibleLine(sandbox.name, 40);
  return (
    <Link
      href={`/sandboxes/${sandbox.sandboxId}`}
      className={`state ${styles.computer}`}
      data-state={state as State}
      title={strings.sandbox(name, word)}
      aria-label={strings.sandbox(name, word)}
    >
      <StateDot state={state} />
      <span className="only-wide">{name}</span>
    </Link>
  );
}
