// An editor whose state lives outside, so that it survives when the editor is not shown.
import type { EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { useEffect, useEffectEvent, useRef } from 'react';
import { language, languageOf } from './setup';

export interface EditorProps {
  /** Read when the editor appears, and when `revision` changes. */
  state: EditorState;
  /** Another one: the state was replaced from outside. */
  revision: number;
  /** By which the language is chosen; null: none. */
  name: string | null;
  onChange: (state: EditorState) => void;
  className?: string;
}

export function CodeEditor({ state, revision, name, onChange, className }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const changed = useEffectEvent(onChange);
  const current = useEffectEvent(() => state);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new revision is a new state
  useEffect(() => {
    if (!host.current) return;
    const view = new EditorView({
      state: current(),
      parent: host.current,
      dispatchTransactions: (transactions, target) => {
        target.update(transactions);
        changed(target.state);
      },
    });
    let gone = false;
    if (name !== null) {
      void languageOf(name).then((extension) => {
        if (!gone) view.dispatch({ effects: language.reconfigure(extension) });
      });
    }
    return () => {
      gone = true;
      view.destroy();
    };
  }, [revision, name]);
  return <div ref={host} className={className} />;
}
