// The frame around all pages that need a session.
import { type ReactNode, useEffect, useState } from 'react';
import { useLocation } from 'wouter';
import { navEntries } from '../pages';
import { useSession } from '../session';
import { listen, useShortcuts } from '../shortcuts';
import { Help } from './help';
import { Palette } from './palette';
import { Rail, TabBar } from './rail';
import { strings } from './strings';
import { TopBar } from './top-bar';
import { useLiveCaches } from './use-live-caches';

export interface ShellProps {
  current: string;
  slim?: boolean;
  children: ReactNode;
}

export function Shell({ current, slim, children }: ShellProps) {
  const [path, navigate] = useLocation();
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  useLiveCaches();
  useEffect(listen, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page begins at its top
  useEffect(() => {
    document.querySelector('[data-scroller]')?.scrollTo(0, 0);
  }, [path]);

  const group = strings.everywhere;
  useShortcuts([
    { keys: 'mod+k', label: strings.search, group, inFields: true, run: () => setPalette(true) },
    { keys: 'c', label: strings.create, group, run: () => navigate('/create') },
    { keys: 'n', label: strings.newChat, group, run: () => navigate('/chats') },
    { keys: '?', label: strings.shortcuts, group, run: () => setHelp(true) },
    ...navEntries(useSession().permissions).map((page) => ({
      keys: `g ${page.nav.letter}`,
      label: page.nav.label,
      group: strings.goTo,
      run: () => navigate(page.path),
    })),
  ]);

  return (
    <div className={slim ? 'app slim' : 'app'}>
      <a className="skip" href="#page">
        {strings.skip}
      </a>
      <TopBar onPalette={() => setPalette(true)} onHelp={() => setHelp(true)} />
      <Rail current={current} />
      <main className="main" id="page" tabIndex={-1}>
        <div className="scroller" data-scroller>
          {children}
        </div>
        <div id="dock" className="dock" />
      </main>
      <TabBar current={current} />
      <Palette isOpen={palette} onClose={() => setPalette(false)} />
      <Help isOpen={help} onClose={() => setHelp(false)} />
    </div>
  );
}
