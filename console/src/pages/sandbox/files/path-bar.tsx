// Where the tree begins: a field for any path, and the tools of that directory.
import { ArrowUp, Eye, EyeOff, House, Plus, RotateCw } from 'lucide-react';
import { useEffect, useState } from 'react';
import { cli, curl } from '../../../format/snippet';
import { ErrorBanner, IconButton, Menu, type MenuEntry, SnippetMenu } from '../../../ui';
import styles from './files.module.css';
import { parentOf } from './names';
import { strings } from './strings';

export interface PathBarProps {
  id: string;
  directory: string;
  hidden: boolean;
  error: unknown;
  onGo: (directory: string) => void;
  onHidden: (on: boolean) => void;
  onRefresh: () => void;
  actions: MenuEntry[];
}

export function PathBar({ id, directory, hidden, error, onGo, onHidden, onRefresh, actions }: PathBarProps) {
  const [text, setText] = useState(directory);
  useEffect(() => setText(directory), [directory]);
  return (
    <header className={styles.pathBar}>
      <form
        className={styles.pathForm}
        onSubmit={(event) => {
          event.preventDefault();
          onGo(text.trim());
        }}
      >
        <input
          className="input mono"
          aria-label={strings.goTo}
          title={strings.goTo}
          value={text}
          maxLength={4095}
          spellCheck={false}
          autoComplete="off"
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') setText(directory);
          }}
        />
      </form>
      <div className={styles.tools}>
        <IconButton
          size="sm"
          label={strings.up}
          isDisabled={directory === '/'}
          onPress={() => onGo(parentOf(directory))}
        >
          <ArrowUp />
        </IconButton>
        <IconButton size="sm" label={strings.home} onPress={() => onGo('')}>
          <House />
        </IconButton>
        <IconButton size="sm" label={strings.refresh} onPress={onRefresh}>
          <RotateCw />
        </IconButton>
        <IconButton size="sm" label={strings.showHidden} aria-pressed={hidden} onPress={() => onHidden(!hidden)}>
          {hidden ? <Eye /> : <EyeOff />}
        </IconButton>
        <span className="grow" />
        <SnippetMenu
          api={curl('GET', `/sandboxes/${id}/files?path=${encodeURIComponent(directory)}`)}
          cli={cli('tool', 'list_directory', '-s', id, `path=${directory}`)}
        />
        <Menu
          label={strings.more}
          items={actions}
          trigger={
            <IconButton size="sm" label={strings.more}>
              <Plus />
            </IconButton>
          }
        />
      </div>
      {error !== undefined && error !== null && <ErrorBanner error={error} onRetry={onRefresh} />}
    </header>
  );
}
