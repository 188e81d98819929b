// Scrolling of a conversation: it stays at its end while one is there, and where one is when older messages come.
import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';

const NEAR = 48;

export interface Follow {
  scroller: RefObject<HTMLDivElement | null>;
  content: RefObject<HTMLDivElement | null>;
  atEnd: boolean;
  toEnd: () => void;
  onScroll: () => void;
}

/** `first` is the oldest message that is shown. */
export function useFollow(first: string | undefined): Follow {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const [atEnd, setAtEnd] = useState(true);
  const last = useRef({ first, height: 0, top: 0 });

  const toEnd = useCallback(() => {
    const element = scroller.current;
    if (!element) return;
    follows.current = true;
    element.scrollTop = element.scrollHeight;
    // What comes in sight is laid out only now, and may be higher than was thought.
    requestAnimationFrame(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
  }, []);

  const onScroll = useCallback(() => {
    const element = scroller.current;
    if (!element) return;
    const near = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
    // What grows moves the end away; only a person moves upwards.
    if (near) follows.current = true;
    else if (element.scrollTop < last.current.top - 2) follows.current = false;
    last.current.top = element.scrollTop;
    last.current.height = element.scrollHeight;
    setAtEnd(near || follows.current);
  }, []);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const before = last.current;
    if (before.first !== undefined && first !== before.first && before.height > 0 && !follows.current) {
      element.scrollTop = before.top + (element.scrollHeight - before.height);
    }
    last.current = { first, height: element.scrollHeight, top: element.scrollTop };
  }, [first]);

  useEffect(() => {
    const inner = content.current;
    const outer = scroller.current;
    if (!inner || !outer) return;
    const observer = new ResizeObserver(() => {
      if (follows.current) outer.scrollTop = outer.scrollHeight;
      last.current.height = outer.scrollHeight;
    });
    observer.observe(inner);
    observer.observe(outer);
    return () => observer.disconnect();
  }, []);

  return { scroller, content, atEnd, toEnd, onScroll };
}
