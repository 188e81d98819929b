// What a program printed, as lines of styled text. Colours count, returns and backspaces write over what was there, all
// other escape sequences are dropped. Pure.
import { clean } from '../markdown/clean';
import { Line, type Span } from './line';
import { PLAIN, type Style, styled } from './style';

export type { Span } from './line';

/** Characters that are looked at: the newest. */
const LONGEST = 1_048_576;
/** How much is moved to write over what was there; then a return is a line break, and a backspace nothing. */
const MOST_WORK = 2_000_000;
const MOST_STYLES = 20_000;

export interface Parsed {
  lines: Span[][];
  /** Lines that are left out before these. */
  left: number;
  /** Whether text before that is left out, too. */
  isCut: boolean;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const SPECIAL = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const CSI = /(?:\u001b\[|\u009b)([0-?]{0,128})[ -/]{0,8}([@-~])/y;
// Texts for the terminal itself: titles, links, pictures. They end at their mark, or with the line: a program that broke
// off in one must not hide what comes after it.
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const TEXT = /(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c\n]*(?:\u0007|\u009c|\u001b\\)?/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const OTHER = /\u001b[ -/]{0,8}[0-~]/y;
// The beginning of a sequence whose rest has not come.
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const OPEN = /(?:\u001b|(?:\u001b\[|\u009b)[0-?]{0,128}[ -/]{0,8}|\u001b[ -/]{0,8})$/y;

class Screen {
  readonly lines: Span[][] = [];
  left = 0;
  #line = new Line();
  #style: Style = PLAIN;
  #styles = new Map<string, Style>();
  #work = 0;
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  write(text: string): void {
    this.#work += this.#line.cost;
    this.#line.write(text, this.#style);
  }

  newLine(): void {
    this.lines.push(this.#line.spans);
    this.#line = new Line();
    // Not at each line: taking from the front is slow.
    if (this.lines.length >= this.#most * 2) this.#trim();
  }

  control(char: string): void {
    if (char === '\n' || char === '\u000b' || char === '\u000c' || char === '\u0085') this.newLine();
    else if (char === '\r') {
      if (this.#work > MOST_WORK) this.newLine();
      else this.#line.return();
    } else if (char === '\b' && this.#work <= MOST_WORK) this.#line.back();
  }

  sequence(params: string, end: string): void {
    if (end === 'm') {
      if (this.#styles.size > MOST_STYLES) return;
      const next = styled(this.#style, params);
      const key = Object.values(next).join();
      this.#style = this.#styles.get(key) ?? next;
      this.#styles.set(key, this.#style);
    } else if (end === 'K' && /^[012]?$/.test(params)) {
      this.#work += this.#line.spans.length;
      if (this.#work <= MOST_WORK) this.#line.erase(Number(params), this.#style);
    }
  }

  end(): void {
    if (!this.#line.isEmpty) this.lines.push(this.#line.spans);
    this.#trim();
  }

  #trim(): void {
    const over = this.lines.length - this.#most;
    if (over <= 0) return;
    this.lines.splice(0, over);
    this.left += over;
  }
}

export function parseOutput(text: string, mostLines = 2000): Parsed {
  const isCut = text.length > LONGEST;
  const given = isCut ? text.slice(-LONGEST) : text;
  const screen = new Screen(mostLines);
  let at = 0;
  while (at < given.length) {
    SPECIAL.lastIndex = at;
    const next = SPECIAL.exec(given)?.index ?? given.length;
    if (next > at) screen.write(given.slice(at, next));
    if (next >= given.length) break;
    at = next + special(given, next, screen);
  }
  screen.end();
  return { lines: screen.lines.map(visible), left: screen.left, isCut };
}

/** How long what begins here is. */
function special(text: string, at: number, screen: Screen): number {
  const char = text[at]!;
  const csi = match(CSI, text, at);
  if (csi) {
    screen.sequence(csi[1]!, csi[2]!);
    return csi[0].length;
  }
  const other = match(TEXT, text, at) ?? match(OPEN, text, at) ?? match(OTHER, text, at);
  if (other) return other[0].length;
  screen.control(char);
  return 1;
}

function match(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

const visible = (spans: Span[]): Span[] => spans.map((span) => ({ ...span, text: clean(span.text) }));
