// Two versions of a text: theirs, and mine, which can be edited. Side by side, or one below the other where it is narrow.
import { MergeView, unifiedMergeView } from '@codemirror/merge';
import { EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { useEffect, useEffectEvent, useRef } from 'react';
import { basics, reading } from './setup';

export interface MergeProps {
  theirs: string;
  mine: string;
  separator: string;
  labels: { theirs: string; mine: string };
  onChange: (mine: string) => void;
  className?: string;
}

const NARROW = 760;

export function Merge({ theirs, mine, separator, labels, onChange, className }: MergeProps) {
  const host = useRef<HTMLDivElement>(null);
  const changed = useEffectEvent(onChange);
  const first = useEffectEvent(() => mine);
  useEffect(() => {
    const parent = host.current;
    if (!parent) return;
    const listener = EditorView.updateListener.of((update) => {
      if (update.docChanged) changed(update.state.sliceDoc());
    });
    const editable = [basics(separator, labels.mine), listener];
    if (window.innerWidth < NARROW) {
      const view = new EditorView({
        parent,
        state: EditorState.create({
          doc: first(),
          extensions: [...editable, unifiedMergeView({ original: theirs, mergeControls: true })],
        }),
      });
      return () => view.destroy();
    }
    const view = new MergeView({
      parent,
      a: { doc: theirs, extensions: reading(separator, labels.theirs) },
      b: { doc: first(), extensions: editable },
      revertControls: 'a-to-b',
      collapseUnchanged: { margin: 4, minSize: 8 },
      gutter: true,
    });
    return () => view.destroy();
  }, [theirs, separator, labels.mine, labels.theirs]);
  return <div ref={host} className={className} />;
}
