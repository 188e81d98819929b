// The state of a build, in the shapes that sandboxes have.
import type { State } from '../../format/sandbox';
import { StateText } from '../../ui';

const WORDS: Record<string, [State, string]> = {
  ready: ['done', 'Ready'],
  building: ['creating', 'Building'],
  waiting: ['waiting', 'Waiting'],
  error: ['failed', 'Failed'],
};

export function buildWords(status: string): { state: State; word: string } {
  const [state, word] = WORDS[status] ?? ['stopped', status];
  return { state, word };
}

/** Whether it still changes by itself. */
export const isOpen = (status: string): boolean => status === 'building' || status === 'waiting';

export function BuildState({ status, detail }: { status: string; detail?: string | null }) {
  return <StateText {...buildWords(status)} detail={detail} />;
}
