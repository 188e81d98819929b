// The rail on wide screens and the tab bar on phones, both from the table of pages.
import { useQuery } from '@tanstack/react-query';
import { Ellipsis } from 'lucide-react';
import { statusQuery } from '../api';
import { percent } from '../format/size';
import { type NavEntry, navEntries, SECTIONS } from '../pages';
import { useSession } from '../session';
import { Button, Link, Menu, StateDot } from '../ui';
import { strings } from './strings';

function Item({ entry, current, count }: { entry: NavEntry; current: string; count?: number }) {
  const Icon = entry.nav.icon;
  return (
    <Link href={entry.path} title={entry.nav.label} aria-current={current === entry.path ? 'page' : undefined}>
      <Icon />
      <span className="word">{entry.nav.label}</span>
      {count !== undefined && count > 0 && <span className="count">{count}</span>}
    </Link>
  );
}

export function Rail({ current }: { current: string }) {
  const { data: status } = useQuery(statusQuery());
  const entries = navEntries(useSession().permissions);
  const machine = status?.machine;
  return (
    <nav className="rail" aria-label={strings.main}>
      {(Object.keys(SECTIONS) as (keyof typeof SECTIONS)[]).map((section) => (
        <div key={section} className="rail-section">
          {SECTIONS[section] && <div className="rail-head">{SECTIONS[section]}</div>}
          {entries
            .filter((entry) => entry.nav.section === section)
            .map((entry) => (
              <Item
                key={entry.path}
                entry={entry}
                current={current}
                count={entry.path === '/sandboxes' ? status?.running : undefined}
              />
            ))}
        </div>
      ))}
      {status && (
        <div className="foot">
          <div className="row">
            <StateDot state="running" />
            <span className="cut">{location.hostname}</span>
          </div>
          <div className="cut">
            {machine
              ? strings.memory(percent(machine.memoryMB - machine.memoryAvailableMB, machine.memoryMB))
              : `cabana ${status.version}`}
          </div>
        </div>
      )}
    </nav>
  );
}

export function TabBar({ current }: { current: string }) {
  const entries = navEntries(useSession().permissions);
  const tabs = entries.filter((entry) => entry.nav.tab);
  const rest = entries.filter((entry) => !entry.nav.tab);
  return (
    <nav className="tabbar" aria-label={strings.main}>
      {tabs.map((entry) => (
        <Item key={entry.path} entry={entry} current={current} />
      ))}
      <Menu
        label={strings.more}
        placement="top end"
        items={rest.map((entry) => ({ label: entry.nav.label, icon: <entry.nav.icon />, href: entry.path }))}
        trigger={
          <Button look="quiet" className={rest.some((entry) => entry.path === current) ? 'tab current' : 'tab'}>
            <Ellipsis />
            {strings.more}
          </Button>
        }
      />
    </nav>
  );
}
