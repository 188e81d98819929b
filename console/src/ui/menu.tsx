// Menus from data.
import type { ReactNode } from 'react';
import {
  Menu as AriaMenu,
  Header,
  MenuItem,
  MenuSection,
  MenuTrigger,
  Popover,
  Separator,
} from 'react-aria-components';
import { KeyHint } from './keys';

export interface MenuAction {
  id?: string;
  label: string;
  icon?: ReactNode;
  /** Shown only; register it with useShortcuts. */
  keys?: string;
  danger?: boolean;
  disabled?: boolean;
  /** What stands at the end, in grey. */
  note?: ReactNode;
  /** A page of the console. */
  href?: string;
  onAction?: () => void;
}

export type MenuEntry = MenuAction | 'separator' | { heading: string; items: MenuAction[] };

function Item({ entry }: { entry: MenuAction }) {
  return (
    <MenuItem
      id={entry.id ?? entry.label}
      textValue={entry.label}
      href={entry.href}
      isDisabled={entry.disabled}
      onAction={entry.onAction}
      className={entry.danger ? 'danger' : ''}
    >
      {entry.icon}
      <span className="cut">{entry.label}</span>
      {entry.note && <span className="end meta">{entry.note}</span>}
      {entry.keys && <KeyHint keys={entry.keys} className="end" />}
    </MenuItem>
  );
}

export interface MenuProps {
  /** The button that opens it: Button or IconButton. */
  trigger: ReactNode;
  /** Of the menu, for those who cannot see it. */
  label: string;
  items: MenuEntry[];
  placement?: 'bottom start' | 'bottom end' | 'top start' | 'top end';
}

export function Menu({ trigger, label, items, placement = 'bottom end' }: MenuProps) {
  return (
    <MenuTrigger>
      {trigger}
      <Popover placement={placement} offset={4} className="popover">
        <AriaMenu aria-label={label} className="menu">
          {items.map((entry, i) => {
            if (entry === 'separator') return <Separator key={i} />;
            if (!('heading' in entry)) return <Item key={entry.id ?? entry.label} entry={entry} />;
            return (
              <MenuSection key={entry.heading} className="menu-section">
                <Header className="head">{entry.heading}</Header>
                {entry.items.map((item) => (
                  <Item key={item.id ?? item.label} entry={item} />
                ))}
              </MenuSection>
            );
          })}
        </AriaMenu>
      </Popover>
    </MenuTrigger>
  );
}
