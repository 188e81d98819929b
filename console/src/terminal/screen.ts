// The screen of a terminal: xterm.js with what it may and may not do. Output waits in a queue of ours, so that a flood
// neither freezes the page nor grows without end.
import { FitAddon } from '@xterm/addon-fit';
import { SearchAddon } from '@xterm/addon-search';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { WebglAddon } from '@xterm/addon-webgl';
import { type ITheme, Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { isReport } from './safe';
import { FONT_SIZES, type Preferences } from './stored';

/** Bytes that are drawn between two frames when there is more, so that the page stays usable; and that wait in all. */
const FRAME = 128 * 1024;
const PIECE = 32 * 1024;
const MOST_WAITING = 4 * 1024 * 1024;
/** After this much silence a replay is over. */
const QUIET_MS = 150;
const SCROLLBACK = 10_000;
/** Cancels a sequence that was cut, then resets. In the stream, as earlier output may still be on its way. */
const RESET = new Uint8Array([0x18, 0x1b, 0x63]);

export interface ScreenOptions {
  preferences: Preferences;
  /** Keys and answers, for the shell. */
  onData: (data: string) => void;
  onResize: (cols: number, rows: number) => void;
  onTitle: (title: string) => void;
  onLink: (address: string) => void;
  onPaste: (text: string) => void;
  onSelect: (text: string) => void;
  /** Returns true for keys that are not for the shell. */
  onKey: (event: KeyboardEvent) => boolean;
  /** More waits than may. What waited is gone. */
  onFlood: () => void;
}

export interface Found {
  index: number;
  count: number;
}

export class Screen {
  readonly terminal: Terminal;
  readonly #fit = new FitAddon();
  readonly #search = new SearchAddon({ highlightLimit: 500 });
  readonly #options: ScreenOptions;
  #webgl: WebglAddon | null = null;
  #queue: Uint8Array[] = [];
  #waiting = 0;
  /** Pieces that xterm has, and bytes that it got since the last frame. */
  #inFlight = 0;
  #fed = 0;
  #replaying = false;
  #quiet: ReturnType<typeof setTimeout> | undefined;
  #disposed = false;
  #element: HTMLElement | null = null;

  constructor(options: ScreenOptions) {
    this.#options = options;
    const { preferences } = options;
    this.terminal = new Terminal({
      // The marks of the search are a proposed API.
      allowProposedApi: true,
      cursorBlink: false,
      fontSize: preferences.fontSize,
      lineHeight: 1.25,
      scrollback: SCROLLBACK,
      screenReaderMode: preferences.screenReader,
      minimumContrastRatio: 4.5,
      macOptionIsMeta: true,
      rightClickSelectsWord: false,
      // Nothing that a program prints moves, resizes or reads the window.
      windowOptions: {},
      linkHandler: { activate: (_, address) => options.onLink(address), allowNonHttpProtocols: false },
      logLevel: 'off',
    });
    this.terminal.loadAddon(this.#fit);
    this.terminal.loadAddon(this.#search);
    this.terminal.loadAddon(new WebLinksAddon((_, address) => options.onLink(address)));
    this.#forbid();
    this.terminal.onData((data) => {
      if (!this.#replaying || !isReport(data)) options.onData(data);
    });
    this.terminal.onResize(({ cols, rows }) => options.onResize(cols, rows));
    this.terminal.onTitleChange((title) => options.onTitle(title));
    this.terminal.onSelectionChange(() => {
      if (this.terminal.hasSelection()) options.onSelect(this.terminal.getSelection());
    });
    this.terminal.attachCustomKeyEventHandler((event) => {
      if (event.type !== 'keydown' || !options.onKey(event)) return true;
      event.preventDefault();
      event.stopPropagation();
      return false;
    });
  }

  /** Sequences that act outside of the screen do nothing, whatever the library or an addon would do with them. */
  #forbid(): void {
    const { parser } = this.terminal;
    // Clipboard, current directory, notifications, images, and what shells tell their own terminals.
    for (const code of [7, 9, 50, 52, 99, 133, 633, 777, 1337]) parser.registerOscHandler(code, () => true);
    parser.registerCsiHandler({ final: 't' }, () => true);
    parser.registerDcsHandler({ final: 'q' }, () => true);
    // The answer would reach the shell as keys, and begin a search of its history.
    parser.registerDcsHandler({ intermediates: '$', final: 'q' }, () => true);
  }

  open(element: HTMLElement): void {
    this.#element = element;
    this.terminal.options.theme = themeOf(element);
    this.terminal.options.fontFamily = getComputedStyle(element).getPropertyValue('--mono').trim() || 'monospace';
    this.terminal.open(element);
    // Before xterm's own listener: it would type the text at once.
    element.addEventListener('paste', this.#paste, true);
  }

  readonly #paste = (event: ClipboardEvent): void => {
    event.preventDefault();
    event.stopPropagation();
    const text = event.clipboardData?.getData('text/plain');
    if (text) this.#options.onPaste(text);
  };

  /** The graphics card draws the screen that is looked at; browsers have few contexts. */
  accelerate(on: boolean): void {
    if (!on) {
      this.#webgl?.dispose();
      this.#webgl = null;
      return;
    }
    if (this.#webgl || this.#disposed) return;
    try {
      const addon = new WebglAddon();
      addon.onContextLoss(() => {
        addon.dispose();
        this.#webgl = null;
      });
      this.terminal.loadAddon(addon);
      this.#webgl = addon;
    } catch {
      this.#webgl = null;
    }
  }

  fit(): void {
    if (this.#disposed || !this.#element?.clientWidth || !this.#element.clientHeight) return;
    this.#fit.fit();
  }

  prefer(preferences: Preferences): void {
    const { options } = this.terminal;
    const size = Math.min(FONT_SIZES.most, Math.max(FONT_SIZES.least, preferences.fontSize));
    if (options.fontSize !== size) options.fontSize = size;
    if (options.screenReaderMode !== preferences.screenReader) options.screenReaderMode = preferences.screenReader;
    this.fit();
  }

  /** A shell begins, or its newest output is shown again on an empty screen. */
  begin(replay: boolean): void {
    this.#clear();
    if (!replay) return;
    this.#replaying = true;
    this.#push(RESET);
  }

  write(bytes: Uint8Array): void {
    if (this.#disposed) return;
    this.#push(bytes);
    if (this.#waiting <= MOST_WAITING) return;
    this.#clear();
    this.#options.onFlood();
  }

  /** Types a text; programs that asked for it are told that it is pasted. */
  paste(text: string): void {
    this.terminal.paste(text);
    this.terminal.focus();
  }

  find(term: string, back: boolean, onFound: (found: Found) => void): void {
    const options = { decorations: MARKS, incremental: false };
    const listener = this.#search.onDidChangeResults(({ resultIndex, resultCount }) =>
      onFound({ index: resultIndex, count: resultCount }),
    );
    const found = back ? this.#search.findPrevious(term, options) : this.#search.findNext(term, options);
    listener.dispose();
    if (!found) onFound({ index: -1, count: 0 });
  }

  endFind(): void {
    this.#search.clearDecorations();
    this.terminal.clearSelection();
  }

  dispose(): void {
    this.#disposed = true;
    clearTimeout(this.#quiet);
    this.#clear();
    this.#element?.removeEventListener('paste', this.#paste, true);
    this.accelerate(false);
    this.terminal.dispose();
  }

  #push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += PIECE) this.#queue.push(bytes.subarray(at, at + PIECE));
    this.#waiting += bytes.length;
    this.#feed();
  }

  #clear(): void {
    this.#queue = [];
    this.#waiting = 0;
  }

  /** Gives xterm what may be drawn before the next frame. */
  #feed(): void {
    let pieces = 0;
    while (this.#queue.length > 0 && this.#fed < FRAME && !this.#disposed) {
      const bytes = this.#queue.shift()!;
      pieces += 1;
      this.#waiting -= bytes.length;
      this.#fed += bytes.length;
      this.#inFlight += 1;
      this.terminal.write(bytes, () => {
        this.#inFlight -= 1;
        if (this.#inFlight === 0) this.#rest();
      });
    }
    if (this.#replaying && pieces > 0) this.#listen();
  }

  /** All of it is drawn: other things have their turn before the next. */
  #rest(): void {
    if (this.#fed < FRAME || this.#queue.length === 0) {
      this.#fed = 0;
      this.#feed();
      return;
    }
    const go = () => {
      this.#fed = 0;
      this.#feed();
    };
    // Hidden pages have no frames.
    if (document.visibilityState === 'visible') requestAnimationFrame(() => setTimeout(go, 0));
    else setTimeout(go, 50);
  }

  #listen(): void {
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => {
      if (this.#inFlight === 0 && this.#queue.length === 0) this.#replaying = false;
      else this.#listen();
    }, QUIET_MS);
  }
}

const MARKS = {
  matchBackground: '#4a4030',
  activeMatchBackground: '#d8c08e',
  matchOverviewRuler: '#d8c08e',
  activeMatchColorOverviewRuler: '#62c6c6',
};

/** The tokens' values inside of an element, which is dark in both themes. */
function themeOf(element: HTMLElement): ITheme {
  const probe = document.createElement('span');
  element.append(probe);
  const value = (token: string): string => {
    probe.style.color = `var(${token})`;
    return getComputedStyle(probe).color;
  };
  const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const;
  const theme: Record<string, string> = {
    background: value('--canvas'),
    foreground: value('--text'),
    cursor: value('--accent'),
    cursorAccent: value('--canvas'),
    selectionBackground: '#1f5558',
    selectionInactiveBackground: '#2d4344',
    scrollbarSliderBackground: '#b0ada440',
    scrollbarSliderHoverBackground: '#b0ada466',
    scrollbarSliderActiveBackground: '#b0ada480',
    overviewRulerBorder: value('--canvas'),
  };
  for (const name of names) {
    const colour = value(`--ansi-${name}`);
    theme[name] = colour;
    theme[`bright${name.charAt(0).toUpperCase()}${name.slice(1)}`] = name === 'black' ? value('--ansi-dim') : colour;
  }
  theme.brightWhite = value('--text');
  probe.remove();
  return theme;
}
