// What one can do with the selected rows. Docked under the list.
import { X } from 'lucide-react';
import type { ReactNode } from 'react';
import { IconButton } from './button';
import { Dock } from './page';

export interface BulkBarProps {
  /** How many are selected; with 0 there is no bar. */
  count: number;
  /** "Selected sandboxes". */
  label: string;
  onClear: () => void;
  /** Buttons, `look="quiet"`. */
  children: ReactNode;
}

export function BulkBar({ count, label, onClear, children }: BulkBarProps) {
  if (count === 0) return null;
  return (
    <Dock>
      <div className="bulk" role="toolbar" aria-label={label}>
        <b className="num">
          {count}
          <span className="only-wide"> selected</span>
        </b>
        <span className="sep" />
        {children}
        <span className="sep only-wide" />
        <IconButton label="Clear the selection" onPress={onClear}>
          <X />
        </IconButton>
      </div>
    </Dock>
  );
}
