// The list of all shortcuts that work on this page.
import { useAllShortcuts } from '../shortcuts';
import { Dialog, KeyHint } from '../ui';
import { strings } from './strings';

export function Help({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const all = useAllShortcuts().filter((shortcut) => !shortcut.hidden);
  const groups = [...new Set(all.map((shortcut) => shortcut.group))];
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title={strings.shortcuts} size="lg">
      <div className="help">
        {groups.map((group) => (
          <section key={group}>
            <h3>{group}</h3>
            <ul>
              {all
                .filter((shortcut) => shortcut.group === group)
                .map((shortcut) => (
                  <li key={shortcut.keys}>
                    <span>{shortcut.label}</span>
                    <KeyHint keys={shortcut.keys} />
                  </li>
                ))}
            </ul>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
