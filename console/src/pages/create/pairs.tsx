// Rows of names and values.
import { Plus, X } from 'lucide-react';
import { plainName } from '../../format/plain';
import { Button, IconButton } from '../../ui';
import styles from './create.module.css';
import { type Pair, pair } from './draft';
import { looksLikeEnv, parseEnv } from './env-file';
import { strings } from './strings';

export interface PairsProps {
  /** "Label", "Variable". */
  what: string;
  add: string;
  pairs: readonly Pair[];
  onChange: (pairs: Pair[]) => void;
  /** Text of an .env file that is pasted into a name becomes rows. */
  takesFiles?: boolean;
  isInvalid?: boolean;
  children?: React.ReactNode;
}

/** Rows with others added: a name that is there gets the new value. */
export function merge(pairs: readonly Pair[], entries: readonly [string, string][]): Pair[] {
  const given = new Map(entries);
  const kept = pairs
    .filter((one) => one.name.trim() || one.value)
    .map((one) => {
      const value = given.get(one.name.trim());
      if (value === undefined) return one;
      given.delete(one.name.trim());
      return { ...one, value };
    });
  return [...kept, ...[...given].map(([name, value]) => pair(name, value))];
}

export function Pairs({ what, add, pairs, onChange, takesFiles, isInvalid, children }: PairsProps) {
  const set = (id: number, part: Partial<Pair>) =>
    onChange(pairs.map((one) => (one.id === id ? { ...one, ...part } : one)));
  function paste(event: React.ClipboardEvent, id: number): void {
    const text = event.clipboardData.getData('text');
    if (!takesFiles || !looksLikeEnv(text)) return;
    event.preventDefault();
    const others = pairs.filter((one) => one.id !== id || one.name || one.value);
    onChange(merge(others, parseEnv(text).entries));
  }
  return (
    <div className="stack">
      {pairs.length > 0 && (
        <ul className={styles.pairs}>
          {pairs.map((one, i) => (
            <li key={one.id}>
              <input
                className="input mono"
                value={one.name}
                placeholder={strings.config.pairName}
                aria-label={`${what} ${i + 1}, ${strings.config.pairName}`}
                aria-invalid={isInvalid || undefined}
                spellCheck={false}
                autoComplete="off"
                onChange={(event) => set(one.id, { name: event.target.value })}
                onPaste={(event) => paste(event, one.id)}
              />
              <input
                className="input mono"
                value={one.value}
                placeholder={strings.config.pairValue}
                aria-label={`${what} ${i + 1}, ${strings.config.pairValue}`}
                spellCheck={false}
                autoComplete="off"
                onChange={(event) => set(one.id, { value: event.target.value })}
              />
              <IconButton
                label={strings.config.remove(plainName(one.name, 40) || `${what.toLowerCase()} ${i + 1}`)}
                onPress={() => onChange(pairs.filter((other) => other.id !== one.id))}
              >
                <X />
              </IconButton>
            </li>
          ))}
        </ul>
      )}
      <div className="row wrap">
        <Button size="sm" onPress={() => onChange([...pairs, pair()])}>
          <Plus />
          {add}
        </Button>
        {children}
      </div>
    </div>
  );
}
