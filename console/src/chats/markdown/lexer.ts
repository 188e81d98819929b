// marked's lexer, bounded: how deep it goes, how long a run it looks for marks in, and how long it may take.
import { Lexer, type Token } from 'marked';

export const DEEPEST = 12;
const LONGEST_RUN = 8192;
const MOST_MS = 80;

export class BoundedLexer extends Lexer {
  #depth = 0;
  #inner = 0;
  readonly #end: number;

  constructor(ms = MOST_MS) {
    super({ gfm: true });
    this.#end = performance.now() + ms;
  }

  // biome-ignore lint/suspicious/noExplicitAny: the base has two signatures that differ in the list alone
  override blockTokens(src: string, tokens: any = [], clipped = false): any {
    // The top level always goes on: it is one pass over the text. What is inside of it goes over the same text again.
    if (this.#depth > 0 && (this.#depth > DEEPEST || this.#isLate())) {
      tokens.push({ type: 'text', raw: src, text: src });
      return tokens;
    }
    this.#depth++;
    try {
      return super.blockTokens(src, tokens, clipped);
    } finally {
      this.#depth--;
    }
  }

  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    if (this.#inner > DEEPEST || src.length > LONGEST_RUN || this.#isLate()) {
      tokens.push({ type: 'text', raw: src, text: src });
      return tokens;
    }
    this.#inner++;
    try {
      return super.inlineTokens(src, tokens);
    } finally {
      this.#inner--;
    }
  }

  #isLate(): boolean {
    return performance.now() > this.#end;
  }
}
