// A line of a terminal: text is written at a cursor, over what stands there. Pure.
import type { Style } from './style';

export interface Span {
  text: string;
  style: Style;
}

const LONGEST = 16_384;

export class Line {
  spans: Span[] = [];
  #length = 0;
  #cursor = 0;
  /** Whether its end is left out. */
  isCut = false;

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** What it costs to write somewhere but at the end. */
  get cost(): number {
    return this.#cursor === this.#length ? 0 : this.spans.length + (this.#length >> 5);
  }

  write(text: string, style: Style): void {
    const room = LONGEST - this.#cursor;
    if (text.length > room) this.isCut = true;
    const fits = text.length > room ? text.slice(0, room) : text;
    if (!fits) return;
    if (this.#cursor < this.#length) {
      const after = slice(this.spans, this.#cursor + fits.length, this.#length);
      this.spans = slice(this.spans, 0, this.#cursor);
      this.#push({ text: fits, style });
      for (const span of after) this.#push(span);
    } else {
      if (this.#cursor > this.#length) this.#push({ text: ' '.repeat(this.#cursor - this.#length), style });
      this.#push({ text: fits, style });
    }
    this.#cursor += fits.length;
    this.#length = Math.max(this.#length, this.#cursor);
  }

  return(): void {
    this.#cursor = 0;
  }

  back(): void {
    if (this.#cursor > 0) this.#cursor--;
  }

  /** 0: from the cursor on; 1: up to it; 2: all. */
  erase(what: number, style: Style): void {
    if (what === 0) {
      this.spans = slice(this.spans, 0, this.#cursor);
      this.#length = Math.min(this.#length, this.#cursor);
    } else if (what === 2) {
      this.spans = [];
      this.#length = 0;
      if (this.#cursor > 0) this.#fill(style);
    } else if (what === 1) {
      const after = slice(this.spans, this.#cursor, this.#length);
      const count = Math.min(this.#cursor, this.#length);
      this.spans = count > 0 ? [{ text: ' '.repeat(count), style }, ...after] : after;
    }
  }

  #fill(style: Style): void {
    this.spans = [{ text: ' '.repeat(this.#cursor), style }];
    this.#length = this.#cursor;
  }

  #push(span: Span): void {
    const last = this.spans.at(-1);
    if (last && last.style === span.style) this.spans[this.spans.length - 1] = { ...last, text: last.text + span.text };
    else this.spans.push(span);
  }
}

function slice(spans: readonly Span[], start: number, end: number): Span[] {
  const made: Span[] = [];
  let at = 0;
  for (const span of spans) {
    const from = Math.max(start - at, 0);
    const to = Math.min(end - at, span.text.length);
    if (from < to)
      made.push(from === 0 && to === span.text.length ? span : { ...span, text: span.text.slice(from, to) });
    at += span.text.length;
    if (at >= end) break;
  }
  return made;
}
