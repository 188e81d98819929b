// Tabs that are links: each has an address, the browser's back goes to the one before.
import { useEffect, useRef } from 'react';
import { Link } from './link';

export interface Tab {
  href: string;
  label: string;
  /** A number beside the word. */
  count?: number;
  selected: boolean;
}

export function Tabs({ label, tabs }: { label: string; tabs: Tab[] }) {
  const bar = useRef<HTMLElement>(null);
  const selected = tabs.find((tab) => tab.selected)?.href;
  // Where there is no room for all of them, the chosen one is seen.
  // biome-ignore lint/correctness/useExhaustiveDependencies: `selected` is what moves
  useEffect(() => {
    const box = bar.current;
    const chosen = box?.querySelector<HTMLElement>('[data-selected]');
    if (box && chosen) box.scrollLeft = chosen.offsetLeft - (box.clientWidth - chosen.offsetWidth) / 2;
  }, [selected]);
  return (
    <nav className="tabs" aria-label={label} ref={bar}>
      {tabs.map((tab) => (
        <Link
          key={tab.href}
          href={tab.href}
          aria-current={tab.selected ? 'page' : undefined}
          data-selected={tab.selected || undefined}
        >
          {tab.label}
          {tab.count !== undefined && <span className="n">{tab.count}</span>}
        </Link>
      ))}
    </nav>
  );
}
