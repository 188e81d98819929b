// Follows the scrolling of the nearest [data-scroller] and says which rows to draw.
import { type RefObject, useEffect, useLayoutEffect, useState } from 'react';
import { closedOffset, type Opened, type Range, rangeOf, reveal, topOf } from './virtual';

const HEAD = 34;

/** Width of an element, new when it changes. */
export function useWidth(ref: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(() => (typeof window === 'undefined' ? 1024 : window.innerWidth));
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const read = () => setWidth(element.clientWidth);
    read();
    const observer = new ResizeObserver(read);
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return width;
}

/** Whether fingers are used: rows are higher then. */
export const isCoarse = (): boolean => matchMedia('(pointer: coarse)').matches;

function measure(body: HTMLElement): { offset: number; visible: number; scroller: HTMLElement } | null {
  const scroller = body.closest<HTMLElement>('[data-scroller]');
  if (!scroller) return null;
  const offset = scroller.getBoundingClientRect().top - body.getBoundingClientRect().top;
  return { offset, visible: scroller.clientHeight, scroller };
}

export function useVirtual(
  body: RefObject<HTMLElement | null>,
  count: number,
  height: number,
  opened: Opened | null = null,
) {
  const [range, setRange] = useState<Range>({ start: 0, end: Math.min(count, 40) });
  const openedAt = opened?.index ?? -1;
  const openedHeight = opened?.height ?? 0;
  useEffect(() => {
    const element = body.current;
    const first = element && measure(element);
    if (!element || !first) return;
    const more = openedAt < 0 ? null : { index: openedAt, height: openedHeight };
    const update = () => {
      const now = measure(element);
      if (!now) return;
      const next = rangeOf(count, height, closedOffset(now.offset, height, more), now.visible);
      setRange((old) => (old.start === next.start && old.end === next.end ? old : next));
    };
    update();
    const observer = new ResizeObserver(update);
    observer.observe(first.scroller);
    first.scroller.addEventListener('scroll', update, { passive: true });
    return () => {
      observer.disconnect();
      first.scroller.removeEventListener('scroll', update);
    };
  }, [body, count, height, openedAt, openedHeight]);

  function scrollTo(index: number): void {
    const now = body.current && measure(body.current);
    if (!now) return;
    const before = topOf(index, height, opened) - index * height;
    now.scroller.scrollTop += reveal(index, height, now.offset - before, now.visible, HEAD);
  }
  return { range: { start: Math.min(range.start, count), end: Math.min(range.end, count) }, scrollTo };
}
