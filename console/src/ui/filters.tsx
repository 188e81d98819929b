// Filters that live in the URL: a reload keeps them, a link shares them.
import { ChevronDown, Search, X } from 'lucide-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { useSearchParams } from 'wouter';
import { useShortcuts } from '../shortcuts';
import { Button } from './button';
import { TextField } from './field';
import { Menu, type MenuEntry } from './menu';

export interface Filters {
  get(name: string): string;
  getAll(name: string): string[];
  /** Empty text or an empty list removes it. */
  set(name: string, value: string | string[]): void;
  clear(): void;
  /** How many are set, of the names that were given. */
  active: number;
}

/** `names` are the parameters that belong to the list: those are counted and cleared. */
export function useFilters(names: readonly string[]): Filters {
  const [params, setParams] = useSearchParams();
  return {
    get: (name) => params.get(name) ?? '',
    getAll: (name) => params.getAll(name),
    set(name, value) {
      setParams(
        (old) => {
          const next = new URLSearchParams(old);
          next.delete(name);
          for (const one of [value].flat()) if (one) next.append(name, one);
          return next;
        },
        { replace: true },
      );
    },
    clear() {
      setParams(
        (old) => {
          const next = new URLSearchParams(old);
          for (const name of names) next.delete(name);
          return next;
        },
        { replace: true },
      );
    },
    active: names.filter((name) => params.get(name)).length,
  };
}

/** One line of filters; at the end, how many there are. */
export function FilterBar({ children, end }: { children: ReactNode; end?: ReactNode }) {
  return (
    <div className="row wrap filters">
      {children}
      <span className="grow" />
      {end && <span className="meta num only-wide">{end}</span>}
    </div>
  );
}

export interface FilterSearchProps {
  label: string;
  placeholder?: string;
  value: string;
  onChange: (value: string) => void;
}

/** The search field of a list. `/` goes to it, Escape empties it. Calls back when one stops typing. */
export function FilterSearch({ label, placeholder = label, value, onChange }: FilterSearchProps) {
  const [text, setText] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  useShortcuts([{ keys: '/', label: 'Search', group: 'This page', run: () => input.current?.select() }]);
  function change(next: string): void {
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(next.trim()), 200);
  }
  return (
    <TextField
      label={label}
      hideLabel
      type="search"
      placeholder={placeholder}
      value={text}
      onChange={change}
      inputRef={input}
      className="filter-search"
      before={<Search />}
      after={<kbd className="only-wide">/</kbd>}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        if (text) change('');
        else input.current?.blur();
      }}
    />
  );
}

export interface FilterMenuProps {
  /** "State". */
  label: string;
  /** What it is called when nothing is chosen: "any". */
  any?: string;
  value: string;
  onChange: (value: string) => void;
  options: readonly { id: string; label: string; icon?: ReactNode; note?: ReactNode }[];
}

export function FilterMenu({ label, any = 'any', value, onChange, options }: FilterMenuProps) {
  const chosen = options.find((option) => option.id === value);
  const items: MenuEntry[] = [
    { id: '', label: any.charAt(0).toUpperCase() + any.slice(1), onAction: () => onChange('') },
    'separator',
    ...options.map((option) => ({ ...option, onAction: () => onChange(option.id) })),
  ];
  const trigger = (
    <Button look="quiet" className={value ? 'filter on' : 'filter'}>
      {label} <b>{chosen?.label ?? (value || any)}</b>
      <ChevronDown />
    </Button>
  );
  return <Menu label={label} trigger={trigger} items={items} placement="bottom start" />;
}

/** An active filter of free form, such as a label; pressing it removes it. */
export function FilterChip({ children, onRemove }: { children: ReactNode; onRemove: () => void }) {
  return (
    <Button look="quiet" className="filter on" onPress={onRemove}>
      <span className="mono">{children}</span>
      <X aria-label="Remove" />
    </Button>
  );
}
