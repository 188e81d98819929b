// What a text in Markdown is made of, once everything in it has been judged: it is only drawn from here on.

export type Inline =
  | { t: 'text' | 'code' | 'html'; text: string }
  | { t: 'strong' | 'em' | 'del'; children: Inline[] }
  | { t: 'br' }
  /** `shown` is where it leads, unless its words say so themselves. */
  | { t: 'link'; href: string; shown: string | null; children: Inline[] }
  /** A relative address, or one that must not be opened: words, and the address as text. */
  | { t: 'address'; address: string; path: string | null; children: Inline[] }
  /** Never loaded from elsewhere: its words, and where it is. */
  | { t: 'image'; alt: string; href: string | null; path: string | null; shown: string };

export type Align = 'left' | 'center' | 'right' | null;

export interface Item {
  /** Whether a task is done; null: it is no task. */
  done: boolean | null;
  children: Block[];
}

export type Block =
  | { t: 'heading'; level: number; children: Inline[] }
  /** `line` is a paragraph without space around it, in a list. */
  | { t: 'paragraph' | 'line'; children: Inline[] }
  | { t: 'code'; language: string; text: string }
  | { t: 'quote'; children: Block[] }
  | { t: 'list'; start: number | null; items: Item[]; left: number }
  | { t: 'table'; align: Align[]; head: Inline[][]; rows: Inline[][][]; left: number }
  | { t: 'rule' }
  | { t: 'html' | 'plain'; text: string };

/** The text of inline parts, without marks. */
export function wordsOf(children: readonly Inline[], depth = 0): string {
  if (depth > 32) return '';
  return children
    .map((child) => {
      if (child.t === 'br') return ' ';
      if (child.t === 'image') return child.alt;
      return 'text' in child ? child.text : wordsOf(child.children, depth + 1);
    })
    .join('');
}
