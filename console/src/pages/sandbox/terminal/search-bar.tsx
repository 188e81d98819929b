// Search in a terminal: Enter goes on, Shift+Enter back, Escape closes.
import { ChevronDown, ChevronUp, X } from 'lucide-react';
import { useState } from 'react';
import type { Found } from '../../../terminal/screen';
import { IconButton } from '../../../ui';
import { strings } from './strings';
import styles from './terminal.module.css';

export interface SearchBarProps {
  find: (term: string, back: boolean, found: (found: Found) => void) => void;
  onClose: () => void;
}

export function SearchBar({ find, onClose }: SearchBarProps) {
  const [term, setTerm] = useState('');
  const [found, setFound] = useState<Found | null>(null);
  function go(text: string, back: boolean): void {
    if (text) find(text, back, setFound);
    else setFound(null);
  }
  return (
    <search className={styles.search}>
      <input
        // biome-ignore lint/a11y/noAutofocus: one asked for it by a key
        autoFocus
        type="search"
        className="input"
        aria-label={strings.searchField}
        placeholder={strings.searchField}
        value={term}
        maxLength={200}
        onChange={(event) => {
          setTerm(event.target.value);
          go(event.target.value, true);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onClose();
          else if (event.key === 'Enter') go(term, !event.shiftKey);
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      <span className="meta num" role="status">
        {found && (found.count === 0 ? strings.noMatch : strings.found(found.index, found.count))}
      </span>
      <IconButton size="sm" label={strings.previous} onPress={() => go(term, true)}>
        <ChevronUp />
      </IconButton>
      <IconButton size="sm" label={strings.next} onPress={() => go(term, false)}>
        <ChevronDown />
      </IconButton>
      <IconButton size="sm" label={strings.closeSearch} onPress={onClose}>
        <X />
      </IconButton>
    </search>
  );
}
