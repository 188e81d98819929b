// Which terminals a tab of the browser shows (until it is closed), and how one likes them (for ever).

export interface StoredTerminals {
  pids: number[];
  active: number | null;
}

const keyOf = (sandbox: string) => `cabana.terminals.${sandbox}`;

export function loadTerminals(sandbox: string): StoredTerminals {
  try {
    const value = JSON.parse(sessionStorage.getItem(keyOf(sandbox)) ?? '{}') as Partial<StoredTerminals>;
    const pids = Array.isArray(value.pids) ? value.pids.filter((pid) => Number.isInteger(pid) && pid > 0) : [];
    return { pids: pids.slice(0, 32), active: typeof value.active === 'number' ? value.active : null };
  } catch {
    return { pids: [], active: null };
  }
}

export function storeTerminals(sandbox: string, value: StoredTerminals): void {
  try {
    if (value.pids.length === 0) sessionStorage.removeItem(keyOf(sandbox));
    else sessionStorage.setItem(keyOf(sandbox), JSON.stringify(value));
  } catch {
    // Storage is off: a reload lists the terminals instead.
  }
}

export interface Preferences {
  fontSize: number;
  screenReader: boolean;
  copyOnSelect: boolean;
}

export const FONT_SIZES = { least: 9, most: 24, usual: 13 } as const;
const PREFERENCES = 'cabana.terminal';

export function loadPreferences(): Preferences {
  const usual: Preferences = { fontSize: FONT_SIZES.usual, screenReader: false, copyOnSelect: false };
  try {
    const value = JSON.parse(localStorage.getItem(PREFERENCES) ?? '{}') as Partial<Preferences>;
    const size = Number(value.fontSize);
    return {
      fontSize: size >= FONT_SIZES.least && size <= FONT_SIZES.most ? Math.round(size) : usual.fontSize,
      screenReader: value.screenReader === true,
      copyOnSelect: value.copyOnSelect === true,
    };
  } catch {
    return usual;
  }
}

export function storePreferences(value: Preferences): void {
  try {
    localStorage.setItem(PREFERENCES, JSON.stringify(value));
  } catch {
    // Storage is off: they hold until the page is loaded again.
  }
}
