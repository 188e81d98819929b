// An open chat: conversation, box, pane.
import { memo, useEffect, useMemo, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { answerCalls, type Chat, cancelTurn, decide, forkChat, isApiError, requestKey, updateChat } from '../../api';
import { ActionsContext, type ChatActions, LookupContext } from '../../chats/actions';
import { Composer, type ComposerHandle } from '../../chats/composer';
import { hasSandbox, messageOf, repeated, toolsFor, type Uploaded } from '../../chats/composer/body';
import type { Choice } from '../../chats/composer/choices';
import { Queue } from '../../chats/composer/queue';
import { useDropFiles } from '../../chats/composer/use-drop';
import { Conversation } from '../../chats/conversation';
import { DeleteChat, RenameChat } from '../../chats/dialogs';
import type { OpenChat } from '../../chats/live/use-chat';
import { ChatPane } from '../../chats/panes';
import { textOf } from '../../chats/state/blocks';
import type { MessageView } from '../../chats/state/types';
import { strings as chatStrings } from '../../chats/strings';
import type { PageShot } from '../../services/pane';
import { useShortcuts } from '../../shortcuts';
import { toast } from '../../ui';
import { changesOf } from './changes';
import styles from './chat.module.css';
import { AsSnippets, Restore } from './dialogs';
import { Foot } from './foot';
import { type Asking, Head } from './head';
import { Panes } from './panes';
import { Pending } from './pending';
import { ShareDialog } from './share';
import { strings } from './strings';
import { useChatData } from './use-data';
import { usePane } from './use-pane';
import { useSend } from './use-send';

const Beside = memo(ChatPane);
const Box = memo(Composer);
const Top = memo(Head);

type Asked = Asking | { kind: 'restore'; message: MessageView } | null;

export function Open({ chat: open, known: chat }: { chat: OpenChat; known: Chat }) {
  const { view, store } = open;
  const { id } = chat;
  const [, navigate] = useLocation();
  const composer = useRef<ComposerHandle>(null);
  const data = useChatData(id, view);
  const pane = usePane(id, data.serviceList);
  const sending = useSend(id, store, view);
  const [asked, setAsked] = useState<Asked>(null);
  const [stopping, setStopping] = useState(false);
  const [sandbox, setSandbox] = useState<boolean | null>(null);
  const busy = view.active !== null;
  useEffect(() => {
    if (!busy) setStopping(false);
  }, [busy]);
  const { model, agentId, tools } = chat;
  const choice: Choice = useMemo(
    () => ({ model, agentId: agentId ?? '', sandbox: sandbox ?? hasSandbox(tools) }),
    [model, agentId, tools, sandbox],
  );

  async function choose(next: Choice): Promise<void> {
    setSandbox(next.sandbox);
    const change = {
      ...(next.model !== choice.model ? { model: next.model } : {}),
      ...(next.agentId !== choice.agentId ? { agentId: next.agentId } : {}),
    };
    if (Object.keys(change).length === 0) return;
    store.patch({ model: next.model, agentId: next.agentId || null });
    try {
      const made = await updateChat(id, change);
      store.patch({ model: made.model, agentId: made.agentId, tools: made.tools });
    } catch (error) {
      store.patch({ model: choice.model, agentId: choice.agentId || null });
      toast.failed(strings.changeFailed, error);
    }
  }
  async function stop(): Promise<void> {
    setStopping(true);
    try {
      await cancelTurn(id);
    } catch (error) {
      if (!isApiError(error, 'turn_not_running')) toast.failed(chatStrings.stopFailed, error);
      setStopping(false);
    }
  }
  async function fork(messageId?: string, withSandbox = true): Promise<void> {
    try {
      const { chat: made } = await forkChat(id, { messageId, withSandbox }, requestKey());
      toast.done(withSandbox ? strings.forked : strings.inCopy);
      navigate(`/chats/${made.id}`);
    } catch (error) {
      toast.failed(strings.forkFailed, error);
    }
  }
  function capture(shot: PageShot): void {
    const { serviceId, path, rect, viewport, dpr } = shot;
    const name = strings.shotName(data.services.get(serviceId)?.name ?? '');
    composer.current?.uploads.addShot(shot.png, name, {
      serviceId,
      path,
      rect,
      viewport: { ...viewport, dpr },
    });
    pane.setSide('chat');
    // The dialog gives the focus back to what had it before; the box shall have it.
    setTimeout(() => composer.current?.focus(), 50);
  }
  const actions = useActionsOf({
    chatId: id,
    openService: (service) => pane.show('service', service),
    openArtifact: (attachment) => pane.show('artifact', attachment.id),
    restore: (message) => setAsked({ kind: 'restore', message }),
    // With the answer: the computer is as it was after the turn.
    fork: ({ turnId }) => void fork(view.messages.findLast((one) => one.turnId === turnId)?.id),
    retry: (turnId) => {
      const said = view.messages.find((message) => message.turnId === turnId && message.role === 'user');
      if (said) sending.send(repeated(said.content), textOf(said), []);
    },
    stop: () => void stop(),
    decide: async (callId, decision, note) => void (await decide(id, callId, decision, note)),
    answer: async (toolCallId, output) => void (await answerCalls(id, [{ toolCallId, output }])),
  });
  useShortcuts([
    { keys: 'mod+\\', label: strings.togglePane, group: strings.group, inFields: true, run: pane.toggle },
    { keys: 'r', label: chatStrings.message, group: strings.group, run: () => composer.current?.focus() },
  ]);
  const isOver = useDropFiles((files) => composer.current?.uploads.add(files));
  const about = useMemo(
    () => ({ id, sandboxId: chat.sandboxId, sandboxes: [...view.sandboxes] }),
    [id, chat.sandboxId, view.sandboxes],
  );
  const changes = changesOf(view.messages);
  const onCapture = useStable(capture);
  const onChoice = useStable(choose);
  const onStop = useStable(stop);
  const onFork = useStable(fork);
  const onCopy = useStable(() => fork(undefined, false));
  const onSend = useStable(async (text: string, files: Uploaded[], steer: boolean) => {
    const given = toolsFor(choice.sandbox, tools);
    const body = { ...messageOf(text, files), ...(given ? { tools: given } : {}) };
    sending.send(
      busy ? { ...body, onBusy: steer ? 'steer' : 'queue' } : body,
      text,
      files.map((file) => file.name),
    );
  });
  const count = (message: MessageView) =>
    view.messages.length - view.messages.findIndex((one) => one.id === message.id);

  return (
    <ActionsContext value={actions}>
      <LookupContext value={data}>
        <div className={styles.page}>
          <Panes
            side={pane.side}
            first={
              <section className={styles.conversation} aria-label={strings.conversation}>
                <Top
                  chat={chat}
                  sandboxes={view.sandboxes}
                  pane={pane}
                  onAsk={setAsked}
                  onFork={onFork}
                  onCopy={onCopy}
                />
                <Conversation chat={open} said={sending.said}>
                  <Pending sending={sending} onDiscard={(text) => composer.current?.suggest(text)} />
                </Conversation>
                <div className={styles.under}>
                  <Queue chatId={id} turns={view.queued} />
                  <Box
                    ref={composer}
                    name={id}
                    choice={choice}
                    onChoice={onChoice}
                    busy={busy}
                    stopping={stopping}
                    autoFocus
                    placeholder={busy ? chatStrings.placeholderBusy : chatStrings.placeholderReply}
                    onStop={onStop}
                    onSend={onSend}
                  />
                  <Foot chat={open} />
                </div>
              </section>
            }
            second={
              pane.open ? (
                <Beside
                  chat={about}
                  kind={pane.kind}
                  target={pane.target}
                  onKind={pane.show}
                  onClose={pane.hide}
                  services={data.serviceList}
                  attachments={data.attachmentList}
                  changes={changes}
                  onCapture={onCapture}
                />
              ) : null
            }
          />
          {isOver && <div className={styles.drop}>{chatStrings.drop}</div>}
        </div>
        {asked?.kind === 'rename' && (
          <RenameChat chat={chat} onClose={() => setAsked(null)} onDone={(title) => store.patch({ title })} />
        )}
        {asked?.kind === 'delete' && (
          <DeleteChat chat={chat} onClose={() => setAsked(null)} onDone={() => navigate('/chats')} />
        )}
        {asked?.kind === 'share' && <ShareDialog chat={chat} onClose={() => setAsked(null)} />}
        {asked?.kind === 'snippets' && <AsSnippets chatId={id} onClose={() => setAsked(null)} />}
        {asked?.kind === 'restore' && (
          <Restore
            chatId={id}
            message={asked.message}
            count={count(asked.message)}
            onClose={() => setAsked(null)}
            onDone={() => composer.current?.suggest(textOf(asked.message))}
          />
        )}
      </LookupContext>
    </ActionsContext>
  );
}

/** Functions that stay the same and do what the newest ones do. */
function useActionsOf(latest: ChatActions): ChatActions {
  const current = useRef(latest);
  useEffect(() => {
    current.current = latest;
  });
  const { chatId } = latest;
  return useMemo(
    () => ({
      chatId,
      openService: (id) => current.current.openService(id),
      openArtifact: (attachment) => current.current.openArtifact(attachment),
      restore: (message) => current.current.restore(message),
      fork: (message) => current.current.fork(message),
      retry: (turnId) => current.current.retry(turnId),
      stop: () => current.current.stop(),
      decide: (...given) => current.current.decide(...given),
      answer: (...given) => current.current.answer(...given),
    }),
    [chatId],
  );
}

function useStable<A extends unknown[], R>(run: (...given: A) => R): (...given: A) => R {
  const latest = useRef(run);
  useEffect(() => {
    latest.current = run;
  });
  return useMemo(
    () =>
      (...given: A) =>
        latest.current(...given),
    [],
  );
}
