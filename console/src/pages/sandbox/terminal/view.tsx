// One terminal: its screen, its connection, and the line under it that says what is wrong.
import { useEffect, useEffectEvent, useImperativeHandle, useRef, useState } from 'react';
import { isApiError, listTerminals, type SandboxFull, terminalUrl } from '../../../api';
import { endSession } from '../../../api/client';
import { isApple } from '../../../shortcuts';
import { TerminalConnection, type TerminalState } from '../../../terminal/connection';
import { cleanPaste, hasLines, titleOf } from '../../../terminal/safe';
import { Screen } from '../../../terminal/screen';
import type { Preferences } from '../../../terminal/stored';
import { copyText, messageOf, toast } from '../../../ui';
import { LinkDialog, PasteDialog } from './dialogs';
import { Notice } from './notice';
import { SearchBar } from './search-bar';
import { strings } from './strings';
import styles from './terminal.module.css';

const MAX_PASTE = 1024 * 1024;
const NOTE_MS = 4000;

export interface ViewHandle {
  focus(): void;
  search(): void;
  copy(): void;
}

export interface ViewProps {
  sandbox: SandboxFull;
  /** The shell to connect to; null starts one. */
  pid: number | null;
  cwd?: string;
  /** Whether it is the one that is seen. */
  active: boolean;
  name: string;
  preferences: Preferences;
  onPid: (pid: number) => void;
  onState: (state: TerminalState) => void;
  onTitle: (title: string) => void;
  onSize: (cols: number, rows: number) => void;
  onNew: () => void;
  /** The person wants the focus out of the terminal. */
  onLeave: () => void;
  ref?: React.Ref<ViewHandle>;
}

export function TerminalView(props: ViewProps) {
  const { sandbox, active, preferences, name } = props;
  const id = sandbox.sandboxID;
  const host = useRef<HTMLDivElement>(null);
  const parts = useRef<{ screen: Screen; connection: TerminalConnection } | null>(null);
  const [state, setState] = useState<TerminalState>({ kind: 'connecting' });
  const [searching, setSearching] = useState(false);
  const [pasted, setPasted] = useState<{ text: string; removed: number; bracketed: boolean } | null>(null);
  const [link, setLink] = useState<string | null>(null);
  const [note, setNote] = useState<string | null>(null);

  const tell = useEffectEvent((next: TerminalState) => {
    setState(next);
    props.onState(next);
  });
  const started = useEffectEvent((value: { pid: number; replay: boolean; dropped: boolean }) => {
    props.onPid(value.pid);
    if (value.replay) setNote((old) => old ?? (value.dropped ? strings.dropped : strings.replayed));
  });
  const paste = useEffectEvent((given: string) => {
    if (given.length > MAX_PASTE) return toast.note(strings.pasteTooLong);
    const { text, removed } = cleanPaste(given);
    const screen = parts.current?.screen;
    if (!screen || !text) return;
    if (hasLines(text)) setPasted({ text, removed, bracketed: screen.terminal.modes.bracketedPasteMode });
    else screen.paste(text);
  });
  const onKey = useEffectEvent((event: KeyboardEvent): boolean => {
    const ctrlShift = event.ctrlKey && event.shiftKey && !event.altKey && !event.metaKey;
    const command = isApple && event.metaKey && !event.ctrlKey && !event.altKey;
    const key = event.key.toLowerCase();
    if (event.shiftKey && event.key === 'Escape' && (event.ctrlKey || event.altKey)) props.onLeave();
    else if (ctrlShift && event.key === 'Enter') props.onNew();
    else if ((ctrlShift || command) && key === 'f') setSearching(true);
    else if (ctrlShift && key === 'c') copy();
    else return false;
    return true;
  });
  const size = useEffectEvent((cols: number, rows: number) => {
    parts.current?.connection.resize(cols, rows);
    if (active) props.onSize(cols, rows);
  });
  const select = useEffectEvent((text: string) => {
    if (preferences.copyOnSelect && text) void copyText(text).catch(() => {});
  });
  const setTitle = useEffectEvent((title: string) => props.onTitle(titleOf(title)));
  const first = useEffectEvent(() => ({ pid: props.pid, cwd: props.cwd, preferences, active }));

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const given = first();
    const screen = new Screen({
      preferences: given.preferences,
      onData: (data) => connection.type(data),
      onResize: (cols, rows) => size(cols, rows),
      onTitle: (title) => setTitle(title),
      onLink: setLink,
      onPaste: (text) => paste(text),
      onSelect: (text) => select(text),
      onKey: (event) => onKey(event),
      onFlood: () => {
        setNote(strings.skipped);
        connection.skip();
      },
    });
    const connection = new TerminalConnection({
      pid: given.pid,
      address: (pid) => {
        const { cols, rows } = screen.terminal;
        return terminalUrl(id, { pid: pid ?? undefined, cols, rows, cwd: pid === null ? given.cwd : undefined });
      },
      onState: (next) => tell(next),
      onStarted: (value) => {
        screen.begin(value.replay);
        started(value);
      },
      onOutput: (bytes) => screen.write(bytes),
      check: () => whyNot(id),
      onSignedOut: endSession,
    });
    parts.current = { screen, connection };
    screen.open(element);
    screen.fit();
    // Not at once: what is unmounted before it begins must not leave a shell behind.
    const start = setTimeout(() => connection.connect(), 0);
    const observer = new ResizeObserver(() => screen.fit());
    observer.observe(element);
    const online = () => connection.state.kind === 'lost' && connection.retryNow();
    window.addEventListener('online', online);
    return () => {
      window.removeEventListener('online', online);
      observer.disconnect();
      clearTimeout(start);
      connection.close();
      screen.dispose();
      parts.current = null;
    };
  }, [id]);

  useEffect(() => {
    const screen = parts.current?.screen;
    screen?.accelerate(active);
    if (!screen || !active) return;
    screen.fit();
    size(screen.terminal.cols, screen.terminal.rows);
    screen.terminal.focus();
  }, [active]);

  useEffect(() => parts.current?.screen.prefer(preferences), [preferences]);

  useEffect(() => {
    if (!note || state.kind !== 'open') return;
    const timer = setTimeout(() => setNote(null), NOTE_MS);
    return () => clearTimeout(timer);
  }, [note, state.kind]);

  // The button that brought it back is gone, and keys must not mean something else now.
  const open = state.kind === 'open';
  useEffect(() => {
    if (open && active && (!document.activeElement || document.activeElement === document.body)) {
      parts.current?.screen.terminal.focus();
    }
  }, [open, active]);

  // Resumed elsewhere: the shell may be there again.
  const running = (sandbox.phase || sandbox.state) === 'running';
  useEffect(() => {
    if (running && parts.current?.connection.state.kind === 'paused') parts.current.connection.retryNow();
  }, [running]);

  function copy(): void {
    const text = parts.current?.screen.terminal.getSelection();
    if (text) void copyText(text).then(() => parts.current?.screen.terminal.focus());
  }
  function focus(): void {
    parts.current?.screen.terminal.focus();
  }
  useImperativeHandle(props.ref, () => ({ focus, copy, search: () => setSearching(true) }));

  return (
    <div className={styles.view} hidden={!active}>
      {searching && (
        <SearchBar
          find={(term, back, found) => parts.current?.screen.find(term, back, found)}
          onClose={() => {
            setSearching(false);
            parts.current?.screen.endFind();
            focus();
          }}
        />
      )}
      <section
        ref={host}
        className={styles.screen}
        aria-label={name}
        aria-description={strings.help}
        data-keys="own"
        data-terminal={state.kind}
      />
      <Notice
        state={state}
        note={note}
        sandbox={sandbox}
        onRetry={() => parts.current?.connection.retryNow()}
        onNew={props.onNew}
      />
      {pasted && (
        <PasteDialog
          {...pasted}
          onClose={() => setPasted(null)}
          onPaste={() => {
            parts.current?.screen.paste(pasted.text);
            setPasted(null);
          }}
        />
      )}
      {link !== null && <LinkDialog address={link} onClose={() => setLink(null)} />}
    </div>
  );
}

/** The reason that no terminal will open, if it is one that stays. */
async function whyNot(id: string): Promise<string | null> {
  try {
    await listTerminals(id);
    return null;
  } catch (error) {
    return isApiError(error) && error.code === 404 ? messageOf(error).replace(/\.$/, '') : null;
  }
}
