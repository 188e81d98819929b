// Tells those who cannot see the page what is finished or needs them; never single words as they come.
import { useEffect, useRef, useState } from 'react';
import { textOf } from '../state/blocks';
import { visibleLine } from '../state/text';
import type { ChatView } from '../state/types';
import { strings } from '../strings';

export function Announcer({ view }: { view: ChatView }) {
  const [text, setText] = useState('');
  const streaming = useRef(new Set<string>());
  const asked = useRef(new Set<string>());
  const failed = useRef<string | null>(null);
  useEffect(() => {
    const last = view.messages.slice(-4);
    for (const message of last) {
      if (message.status === 'streaming') streaming.current.add(message.id);
      else if (streaming.current.delete(message.id) && message.status === 'complete') {
        const words = textOf(message);
        if (words) setText(strings.announced(visibleLine(words, 600)));
      }
      for (const call of message.calls) {
        if ((call.status !== 'approval' && call.status !== 'client') || asked.current.has(call.id)) continue;
        asked.current.add(call.id);
        setText(strings.needsAnswer(visibleLine(call.title || call.name, 200)));
      }
    }
    const turn = last.at(-1)?.turnId;
    const fault = turn ? view.turns[turn]?.fault : null;
    if (turn && fault && failed.current !== turn) {
      failed.current = turn;
      setText(`${strings.turnFailed} ${visibleLine(fault.message, 300)}`);
    }
  }, [view]);
  return (
    <div role="status" className="sr">
      {text}
    </div>
  );
}
