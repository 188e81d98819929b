// The menu of a row. There is one for all rows, which opens at the button that asked for it.
import {
  Archive,
  Camera,
  CirclePlay,
  CopyPlus,
  LifeBuoy,
  Monitor,
  Pause,
  Plus,
  ScrollText,
  Terminal,
  Trash2,
} from 'lucide-react';
import { type ReactNode, useMemo } from 'react';
import { Menu as AriaMenu, MenuItem, Popover, Separator } from 'react-aria-components';
import type { SandboxRow } from '../../api';
import { cli } from '../../format/snippet';
import { copyText, toast } from '../../ui';
import { type Act, actsOf, phaseOf } from './acts';
import { strings } from './strings';
import { againPath, nameOf } from './words';

export const ICONS: Record<Act, ReactNode> = {
  pause: <Pause />,
  resume: <CirclePlay />,
  snapshot: <Camera />,
  fork: <CopyPlus />,
  archive: <Archive />,
  recover: <LifeBuoy />,
  kill: <Trash2 />,
};

export interface RowMenuProps {
  open: { row: SandboxRow; anchor: HTMLElement } | null;
  onClose: () => void;
  onAct: (act: Act, row: SandboxRow) => void;
  onLines: (row: SandboxRow) => void;
}

/** The same act as a command. */
export function commandOf(act: Act, id: string): string {
  return act === 'snapshot' ? cli('snapshot', 'create', id) : cli(act, id);
}

export function RowMenu({ open, onClose, onAct, onLines }: RowMenuProps) {
  const anchor = useMemo(() => ({ current: open?.anchor ?? null }), [open]);
  if (!open) return null;
  const { row } = open;
  const name = nameOf(row);
  const acts = actsOf(row);
  return (
    <Popover
      isOpen
      onOpenChange={(isOpen) => !isOpen && onClose()}
      triggerRef={anchor}
      placement="bottom end"
      offset={4}
      className="popover"
    >
      <AriaMenu aria-label={strings.actionsFor(name)} className="menu" autoFocus="first" onClose={onClose}>
        <MenuItem id="open" href={`/sandboxes/${row.sandboxID}`}>
          <Monitor />
          <span className="cut">{strings.open}</span>
        </MenuItem>
        {phaseOf(row) === 'running' && (
          <MenuItem id="terminal" href={`/sandboxes/${row.sandboxID}/terminal`}>
            <Terminal />
            <span className="cut">{strings.terminal}</span>
          </MenuItem>
        )}
        <MenuItem id="again" href={againPath(row)}>
          <Plus />
          <span className="cut">{strings.createAgain}</span>
        </MenuItem>
        {row.lastLines?.length ? (
          <MenuItem id="lines" onAction={() => onLines(row)}>
            <ScrollText />
            <span className="cut">{strings.lastLines}</span>
          </MenuItem>
        ) : null}
        {acts.length > 0 && <Separator />}
        {acts.map((act) => (
          <MenuItem key={act} id={act} className={act === 'kill' ? 'danger' : ''} onAction={() => onAct(act, row)}>
            {ICONS[act]}
            <span className="cut">{act === 'kill' ? `${strings.kill.action(name)}…` : strings.verbs[act].verb}</span>
          </MenuItem>
        ))}
        {acts[0] && acts[0] !== 'kill' && (
          <>
            <Separator />
            <MenuItem
              id="copy"
              onAction={() => {
                const command = commandOf(acts[0] as Act, row.sandboxID);
                void copyText(command).then(() => toast.done(strings.copied, { text: command }));
              }}
            >
              <Terminal />
              <span className="cut">{`${strings.copyCommand}: ${strings.verbs[acts[0]].verb.toLowerCase()}`}</span>
            </MenuItem>
          </>
        )}
      </AriaMenu>
    </Popover>
  );
}
