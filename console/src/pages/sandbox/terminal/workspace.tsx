// Several terminals in tabs.
import { useQuery } from '@tanstack/react-query';
import { Maximize2, Minimize2, Plus, Search, Settings2, X } from 'lucide-react';
import { useEffect, useEffectEvent, useRef, useState } from 'react';
import { endTerminal, type SandboxFull, terminalsQuery } from '../../../api';
import { cli, curl } from '../../../format/snippet';
import { isApple } from '../../../shortcuts';
import type { TerminalState } from '../../../terminal/connection';
import { FONT_SIZES, loadPreferences, storePreferences, storeTerminals } from '../../../terminal/stored';
import { Button, Dialog, IconButton, Menu, type MenuEntry, SnippetMenu, StateDot, toast } from '../../../ui';
import { strings } from './strings';
import styles from './terminal.module.css';
import { TerminalView, type ViewHandle } from './view';

/** A terminal to open: a shell that runs, or a new one. */
export interface First {
  pid: number | null;
  cwd?: string;
}

interface Tab extends First {
  key: number;
  /** Once known; `pid` is what it began with. */
  shell: number | null;
  title: string;
  state: TerminalState;
}

let keys = 0;
const tabOf = (first: First): Tab => ({
  ...first,
  key: ++keys,
  shell: first.pid,
  title: '',
  state: { kind: 'connecting' },
});

export interface WorkspaceProps {
  sandbox: SandboxFull;
  first: First[];
  /** The shell that was seen last. */
  active: number | null;
  onBegin: () => void;
}

export function Workspace({ sandbox, first, active: activePid, onBegin }: WorkspaceProps) {
  const id = sandbox.sandboxID;
  const [tabs, setTabs] = useState<Tab[]>(() => first.map(tabOf));
  const [activeKey, setActiveKey] = useState(() => (tabs.find((tab) => tab.pid === activePid) ?? tabs[0])?.key);
  const [preferences, setPreferences] = useState(loadPreferences);
  const [full, setFull] = useState(false);
  const [size, setSize] = useState<[number, number] | null>(null);
  const [closing, setClosing] = useState<Tab | null>(null);
  const views = useRef(new Map<number, ViewHandle | null>());
  const strip = useRef<HTMLDivElement>(null);
  const active = tabs.find((tab) => tab.key === activeKey) ?? tabs[0];
  const view = () => (active ? views.current.get(active.key) : null);

  useEffect(() => storePreferences(preferences), [preferences]);
  useEffect(() => {
    const live = tabs.filter((tab) => tab.shell !== null && tab.state.kind !== 'ended');
    storeTerminals(id, { pids: live.map((tab) => tab.shell!), active: active?.shell ?? null });
  }, [id, tabs, active?.shell]);
  const begun = tabs.some((tab) => tab.shell !== null);
  const begin = useEffectEvent(onBegin);
  useEffect(() => {
    if (begun) begin();
  }, [begun]);

  const change = (key: number, part: Partial<Tab>) =>
    setTabs((old) => old.map((tab) => (tab.key === key ? { ...tab, ...part } : tab)));
  function add(next: First): void {
    const known = next.pid === null ? undefined : tabs.find((tab) => tab.shell === next.pid);
    const tab = known ?? tabOf(next);
    if (!known) setTabs((old) => [...old, tab]);
    setActiveKey(tab.key);
  }
  /** A new terminal in place of one that has ended. */
  function replace(old: Tab): void {
    const tab = tabOf({ pid: null });
    setTabs((all) => all.map((one) => (one.key === old.key ? tab : one)));
    setActiveKey(tab.key);
  }
  function remove(key: number): void {
    const at = tabs.findIndex((tab) => tab.key === key);
    const rest = tabs.filter((tab) => tab.key !== key);
    setTabs(rest);
    if (key === active?.key) setActiveKey(rest[Math.min(at, rest.length - 1)]?.key);
  }
  function close(tab: Tab): void {
    if (tab.shell === null || tab.state.kind === 'ended' || tab.state.kind === 'refused') remove(tab.key);
    else setClosing(tab);
  }
  async function end(tab: Tab): Promise<void> {
    setClosing(null);
    remove(tab.key);
    try {
      if (tab.shell !== null) await endTerminal(id, tab.shell);
    } catch (error) {
      toast.failed(strings.endFailed, error);
    }
  }
  function onStripKey(event: React.KeyboardEvent): void {
    if (event.key === 'Delete' && active) {
      event.preventDefault();
      close(active);
      return;
    }
    const at = tabs.findIndex((tab) => tab.key === active?.key);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[event.key];
    const next = to === undefined ? undefined : tabs[(to + tabs.length) % tabs.length];
    if (!next) return;
    event.preventDefault();
    setActiveKey(next.key);
    requestAnimationFrame(() => strip.current?.querySelector<HTMLElement>('[aria-selected="true"]')?.focus());
  }
  const leave = () => strip.current?.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();

  return (
    <section className={`term ${styles.root}`} aria-label={strings.region} data-full={full || undefined}>
      <header>
        <div className={styles.strip} role="tablist" aria-label={strings.tabs} ref={strip}>
          {tabs.map((tab) => (
            <button
              key={tab.key}
              type="button"
              role="tab"
              id={`terminal-tab-${tab.key}`}
              aria-controls={`terminal-${tab.key}`}
              aria-selected={tab === active}
              aria-keyshortcuts="Delete"
              tabIndex={tab === active ? 0 : -1}
              className="tab"
              title={tab.title || undefined}
              onClick={() => (tab === active ? view()?.focus() : setActiveKey(tab.key))}
              onKeyDown={onStripKey}
              onAuxClick={(event) => event.button === 1 && close(tab)}
            >
              <StateDot state={DOTS[tab.state.kind]} />
              <span className={styles.tabName}>{nameOf(tab)}</span>
              {/* For the pointer: a list of tabs has no other buttons. Keys: Delete, or the menu. */}
              {/* biome-ignore lint/a11y/noStaticElementInteractions: see above */}
              {/* biome-ignore lint/a11y/useKeyWithClickEvents: see above */}
              <span
                className={styles.close}
                title={strings.close(nameOf(tab))}
                onClick={(event) => {
                  event.stopPropagation();
                  close(tab);
                }}
              >
                <X className="lucide s" aria-hidden="true" />
              </span>
            </button>
          ))}
        </div>
        <NewMenu id={id} shown={tabs} onAdd={add} />
        <span className="grow" />
        {size && <span className={`meta num only-wide ${styles.size}`}>{strings.size(...size)}</span>}
        <SnippetMenu api={curl('GET', `/sandboxes/${id}/terminals`)} cli={cli('shell', id)} />
        <IconButton size="sm" label={strings.search} onPress={() => view()?.search()}>
          <Search />
        </IconButton>
        <Menu
          label={strings.options}
          trigger={
            <IconButton size="sm" label={strings.options}>
              <Settings2 />
            </IconButton>
          }
          items={options()}
        />
        <IconButton
          size="sm"
          label={full ? strings.leaveFullScreen : strings.fullScreen}
          onPress={() => setFull(!full)}
        >
          {full ? <Minimize2 /> : <Maximize2 />}
        </IconButton>
      </header>
      {tabs.map((tab) => (
        <div
          key={tab.key}
          id={`terminal-${tab.key}`}
          role="tabpanel"
          aria-labelledby={`terminal-tab-${tab.key}`}
          className={styles.panel}
          hidden={tab !== active}
        >
          <TerminalView
            ref={(handle) => void views.current.set(tab.key, handle)}
            sandbox={sandbox}
            pid={tab.pid}
            cwd={tab.cwd}
            name={nameOf(tab)}
            active={tab === active}
            preferences={preferences}
            onPid={(shell) => change(tab.key, { shell })}
            onState={(state) => change(tab.key, { state })}
            onTitle={(title) => change(tab.key, { title })}
            onSize={(cols, rows) => setSize([cols, rows])}
            onNew={() => (tab.state.kind === 'ended' ? replace(tab) : add({ pid: null }))}
            onLeave={leave}
          />
        </div>
      ))}
      {tabs.length === 0 && (
        <div className={styles.center}>
          <Button look="primary" onPress={() => add({ pid: null })}>
            {strings.newTerminal}
          </Button>
        </div>
      )}
      {closing && (
        <Dialog
          isOpen
          alert
          onClose={() => setClosing(null)}
          title={strings.endTitle(nameOf(closing))}
          actions={
            <>
              <Button onPress={() => setClosing(null)}>{strings.cancel}</Button>
              <Button
                autoFocus
                onPress={() => {
                  setClosing(null);
                  remove(closing.key);
                }}
              >
                {strings.keep}
              </Button>
              <Button look="danger-solid" onPress={() => end(closing)}>
                {strings.end(closing.shell ?? 0)}
              </Button>
            </>
          }
        >
          <p>{strings.endText}</p>
        </Dialog>
      )}
    </section>
  );

  function options(): MenuEntry[] {
    const { fontSize, screenReader, copyOnSelect } = preferences;
    const set = (part: Partial<typeof preferences>) => setPreferences({ ...preferences, ...part });
    const word = (on: boolean) => (on ? strings.on : strings.off);
    const none = () => {};
    return [
      {
        label: strings.larger,
        note: `${fontSize} px`,
        disabled: fontSize >= FONT_SIZES.most,
        onAction: () => set({ fontSize: fontSize + 1 }),
      },
      {
        label: strings.smaller,
        disabled: fontSize <= FONT_SIZES.least,
        onAction: () => set({ fontSize: fontSize - 1 }),
      },
      'separator',
      {
        label: strings.screenReader,
        note: word(screenReader),
        onAction: () => set({ screenReader: !screenReader }),
      },
      {
        label: strings.copyOnSelect,
        note: word(copyOnSelect),
        onAction: () => set({ copyOnSelect: !copyOnSelect }),
      },
      { label: strings.copy, onAction: () => view()?.copy() },
      ...(active ? [{ label: strings.closeThis, onAction: () => close(active) }] : []),
      {
        heading: strings.keys,
        items: [
          { label: strings.leaveKey, note: 'Ctrl Shift Esc', onAction: none },
          { label: strings.searchKey, note: isApple ? '⌘F' : 'Ctrl Shift F', onAction: () => view()?.search() },
          { label: strings.copyKey, note: isApple ? '⌘C' : 'Ctrl Shift C', onAction: () => view()?.copy() },
          { label: strings.newKey, note: strings.newKeys, onAction: () => add({ pid: null }) },
        ],
      },
    ];
  }
}

const DOTS = {
  connecting: 'creating',
  open: 'running',
  lost: 'waiting',
  paused: 'paused',
  ended: 'stopped',
  refused: 'failed',
} as const;

const nameOf = (tab: Tab) => tab.title || (tab.shell === null ? strings.shell : `${strings.shell} ${tab.shell}`);

/** A new terminal; and those that run in the sandbox and are not shown. */
function NewMenu({ id, shown, onAdd }: { id: string; shown: Tab[]; onAdd: (first: First) => void }) {
  const { data = [] } = useQuery({ ...terminalsQuery(id), enabled: false });
  const others = data.filter((one) => !shown.some((tab) => tab.shell === one.pid));
  const plus = (
    <IconButton
      size="sm"
      label={strings.newTerminal}
      onPress={others.length > 0 ? undefined : () => onAdd({ pid: null })}
    >
      <Plus />
    </IconButton>
  );
  if (others.length === 0) return plus;
  return (
    <Menu
      label={strings.newTerminal}
      placement="bottom start"
      trigger={plus}
      items={[
        { label: strings.newTerminal, icon: <Plus />, onAction: () => onAdd({ pid: null }) },
        {
          heading: strings.others,
          items: others.map((one) => ({
            id: String(one.pid),
            label: `${one.command.slice(0, 60)} (${one.pid})`,
            onAction: () => onAdd({ pid: one.pid }),
          })),
        },
      ]}
    />
  );
}
