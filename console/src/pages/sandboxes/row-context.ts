// What rows ask the page to do. It stays the same, so that rows need not be drawn again.
import { createContext, useContext } from 'react';
import type { SandboxRow } from '../../api';
import type { Act } from './acts';

export interface RowActs {
  run: (act: Act, row: SandboxRow) => void;
  openMenu: (row: SandboxRow, anchor: HTMLElement) => void;
  toggleLines: (row: SandboxRow) => void;
}

const RowContext = createContext<RowActs>({ run: () => {}, openMenu: () => {}, toggleLines: () => {} });

export const RowActsProvider = RowContext.Provider;
export const useRowActs = (): RowActs => useContext(RowContext);

/** The row whose last lines are shown. */
export const OpenRow = createContext<string | null>(null);

/** The row with an act under way. */
export const BusyRows = createContext<ReadonlyMap<string, Act>>(new Map());
