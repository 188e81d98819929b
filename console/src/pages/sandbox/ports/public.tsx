// Everyone may see it: that is asked once more.
import { type ReactNode, useRef, useState } from 'react';
import { ConfirmDialog } from '../../../ui';
import { strings } from './strings';

const words = strings.publish;

export interface Question {
  /** Resolves with whether a person agreed. */
  ask: () => Promise<boolean>;
  dialog: ReactNode;
}

export function usePublishQuestion(name: string): Question {
  const [open, setOpen] = useState(false);
  const answer = useRef<((agreed: boolean) => void) | null>(null);
  function settle(agreed: boolean): void {
    answer.current?.(agreed);
    answer.current = null;
    setOpen(false);
  }
  return {
    ask: () =>
      new Promise((resolve) => {
        answer.current = resolve;
        setOpen(true);
      }),
    dialog: (
      <ConfirmDialog
        isOpen={open}
        onClose={() => settle(false)}
        title={words.title(name)}
        action={words.act(name)}
        onConfirm={() => settle(true)}
        danger={false}
      >
        <p>{words.means}</p>
        <p>{words.back}</p>
      </ConfirmDialog>
    ),
  };
}
