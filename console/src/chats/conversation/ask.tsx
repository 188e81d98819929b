// Calls that wait: for leave to run, for an answer of the person, or for the client's program.
import { MessageCircleQuestion, Plug, ShieldQuestion } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Decision } from '../../api';
import { Button, StateDot, TextField, toast } from '../../ui';
import { useActions } from '../actions';
import { argumentText, sentence, titleParts, visible, visibleLine } from '../state/text';
import type { CallView } from '../state/types';
import { strings } from '../strings';
import styles from './conversation.module.css';

export function Ask({ call }: { call: CallView }) {
  if (call.status === 'approval') return <Approval call={call} />;
  if (call.name === 'ask_user') return <Question call={call} />;
  return <ClientCall call={call} />;
}

function Frame({ icon, title, children }: { icon: ReactNode; title: string; children: ReactNode }) {
  return (
    <section className={styles.ask} data-state="waiting" aria-label={title}>
      <header>
        <StateDot state="waiting" />
        <b>{title}</b>
        <span className="grow" />
        {icon}
      </header>
      {children}
    </section>
  );
}

function Approval({ call }: { call: CallView }) {
  const { decide } = useActions();
  const [note, setNote] = useState('');
  const [busy, setBusy] = useState<Decision | null>(null);
  const { verb, object } = titleParts(call.title, call.name);
  async function send(decision: Decision): Promise<void> {
    setBusy(decision);
    try {
      await decide(call.id, decision, note.trim());
    } catch (error) {
      toast.failed(strings.decideFailed, error);
      setBusy(null);
    }
  }
  const button = (decision: Decision, look: 'primary' | 'plain') => (
    <Button
      look={look}
      isPending={busy === decision}
      isDisabled={busy !== null && busy !== decision}
      onPress={() => send(decision)}
    >
      {strings[decision]}
    </Button>
  );
  return (
    <Frame icon={<ShieldQuestion />} title={`${strings.approvalTitle}: ${verb} ${object}`.trim()}>
      {call.why && <p>{sentence(call.why, 1000)}</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0} role="region" aria-label={strings.arguments}>
        {argumentText(call.arguments)}
      </pre>
      <TextField
        label={strings.note}
        hideLabel
        placeholder={strings.notePlaceholder}
        value={note}
        onChange={setNote}
        maxLength={2000}
      />
      <div className="row wrap">
        {button('allow', 'primary')}
        {button('deny', 'plain')}
        {button('always', 'plain')}
      </div>
      <p className="meta">{strings.alwaysHint}</p>
    </Frame>
  );
}

interface Choice {
  label: string;
  value: string;
  note: string;
}

/** A model may write its options in several ways. */
function optionsOf(value: unknown): Choice[] {
  const list = (value as { options?: unknown } | null)?.options;
  if (!Array.isArray(list)) return [];
  return list.slice(0, 20).flatMap((one): Choice[] => {
    if (typeof one === 'string') return [{ label: visibleLine(one, 200), value: one.slice(0, 4000), note: '' }];
    const { label, value: given, description } = (one ?? {}) as Record<string, unknown>;
    const text = typeof label === 'string' ? label : typeof given === 'string' ? given : '';
    if (!text) return [];
    const note = typeof description === 'string' ? visibleLine(description, 200) : '';
    return [{ label: visibleLine(text, 200), value: text.slice(0, 4000), note }];
  });
}

function Question({ call }: { call: CallView }) {
  const { answer } = useActions();
  const [text, setText] = useState('');
  const [busy, setBusy] = useState(false);
  const options = optionsOf(call.arguments);
  const question = (call.arguments as { question?: unknown } | null)?.question;
  async function send(output: string): Promise<void> {
    if (!output.trim() || busy) return;
    setBusy(true);
    try {
      await answer(call.id, output);
    } catch (error) {
      toast.failed(strings.answerFailed, error);
      setBusy(false);
    }
  }
  return (
    <Frame icon={<MessageCircleQuestion />} title={strings.question}>
      <p className={styles.plain}>
        {visible(typeof question === 'string' ? question : argumentText(call.arguments), 8000)}
      </p>
      {options.length > 0 && (
        <div className="row wrap">
          {options.map((option, i) => (
            <Button key={i} isDisabled={busy} onPress={() => send(option.value)}>
              {option.label}
              {option.note && <span className="meta">{option.note}</span>}
            </Button>
          ))}
        </div>
      )}
      <form
        className={styles.answer}
        onSubmit={(event) => {
          event.preventDefault();
          void send(text);
        }}
      >
        <TextField
          className="grow"
          label={strings.answer}
          hideLabel
          placeholder={strings.answer}
          value={text}
          onChange={setText}
        />
        <Button type="submit" look="primary" isPending={busy} isDisabled={text.trim() === ''}>
          {strings.sendAnswer}
        </Button>
      </form>
    </Frame>
  );
}

function ClientCall({ call }: { call: CallView }) {
  const { verb, object } = titleParts(call.title, call.name);
  return (
    <Frame icon={<Plug />} title={`${strings.clientTitle}: ${verb} ${object}`.trim()}>
      <p>{strings.clientText(visibleLine(call.name, 80))}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0} role="region" aria-label={strings.arguments}>
        {argumentText(call.arguments)}
      </pre>
    </Frame>
  );
}
