// States: shape, colour and word, always all three.
import type { ReactNode } from 'react';
import { type State, type Status, statusOf } from '../format/sandbox';
import type { ListedSandbox } from '../wire';
import { useNow } from './time';

/** The shape alone; a word must stand beside it. */
export function StateDot({ state }: { state: State }) {
  return <i className="dot" data-state={state} aria-hidden="true" />;
}

/** For rows. */
export function StateText({
  state,
  word,
  detail,
  children,
}: Partial<Status> & { state: State; word: string; children?: ReactNode }) {
  return (
    <span className="state" data-state={state}>
      <StateDot state={state} />
      <b>{word}</b>
      {detail && <span className="num">{detail}</span>}
      {children}
    </span>
  );
}

/** For headers. */
export function StateBadge({ state, word, detail }: { state: State; word: string; detail?: string | null }) {
  return (
    <span className="badge" data-state={state}>
      <StateDot state={state} />
      {word}
      {detail && <span className="num">{detail}</span>}
    </span>
  );
}

/** The state of a sandbox, with times that go on. */
export function SandboxState({ sandbox, badge }: { sandbox: ListedSandbox; badge?: boolean }) {
  const status = statusOf(sandbox, useNow());
  return badge ? <StateBadge {...status} /> : <StateText {...status} />;
}
