// The tree and its tools, beside the open file. Files and folders can be dropped on it.
import { useEffect, useEffectEvent, useMemo, useRef, useState } from 'react';
import { useLocation, useSearchParams } from 'wouter';
import { downloadUrl, type FileEntry, fileUrl, type SandboxFull } from '../../../api';
import { copyText, type MenuEntry, SplitPane, toast } from '../../../ui';
import { Ask, type Asked } from './dialogs';
import { addTab, change, closeTab, renamed, useWorkspace, workspaceOf } from './documents';
import styles from './files.module.css';
import { isBroken, isIn, parentOf, plain } from './names';
import { PathBar } from './path-bar';
import { strings } from './strings';
import { Tree } from './tree';
import { flatten } from './tree-model';
import { fromDrop, fromInput } from './upload';
import { UploadPanel, useUploads } from './uploads';
import { useDirectories } from './use-directories';
import { Viewer } from './viewer';

export interface BrowserProps {
  sandbox: SandboxFull;
  /** Whether the tree may be fetched: that resumes a sandbox. */
  watched: boolean;
  notice: React.ReactNode;
  /** One of tree and file at a time. */
  compact?: boolean;
  onBegin: () => void;
}

export function Browser({ sandbox, watched, notice, compact, onBegin }: BrowserProps) {
  const id = sandbox.sandboxID;
  const { root, expanded, hidden, documents } = useWorkspace(id);
  const [params, setParams] = useSearchParams();
  const [, navigate] = useLocation();
  const path = params.get('file');
  const { listings, refresh } = useDirectories(id, root, expanded, hidden, watched);
  const [asked, ask] = useState<Asked | null>(null);
  const [target, setTarget] = useState<string | null>(null);
  const filesInput = useRef<HTMLInputElement>(null);
  const folderInput = useRef<HTMLInputElement>(null);
  const into = useRef('');
  const uploads = useUploads(id, (directory) => {
    open(directory);
    refresh();
  });

  const top = listings.get(root);
  const directory = top?.data?.path ?? root;
  const rows = useMemo(() => flatten(root, listings, expanded), [root, listings, expanded]);
  const edited = useMemo(
    () => new Set([...documents.values()].filter((one) => one.dirty).map((one) => one.path)),
    [documents],
  );
  const listed = useMemo(() => {
    const entries = path === null ? undefined : listingOf(listings, parentOf(path));
    return entries?.find((entry) => entry.path === path);
  }, [listings, path]);

  const begin = useEffectEvent(onBegin);
  useEffect(() => {
    if (path === null) return;
    begin();
    addTab(id, path);
    change(id, { current: path });
  }, [id, path]);
  // Back from another tab: what was open is shown again.
  const back = useEffectEvent(() => {
    const { current, open } = workspaceOf(id);
    if (path === null && current !== null && open.includes(current)) show(current, true);
  });
  useEffect(() => back(), []);

  function show(next: string | null, replace = next === null): void {
    setParams(
      (old) => {
        const params = new URLSearchParams(old);
        if (next === null) params.delete('file');
        else params.set('file', next);
        return params;
      },
      { replace },
    );
  }
  function open(folder: string): void {
    if (folder !== directory && !expanded.has(folder)) change(id, { expanded: new Set(expanded).add(folder) });
  }
  function toggle(folder: string, on: boolean): void {
    const next = new Set(expanded);
    if (on) next.add(folder);
    else for (const one of expanded) if (isIn(folder, one)) next.delete(one);
    change(id, { expanded: next });
  }
  function openEntry(entry: FileEntry): void {
    if (isBroken(entry.name)) toast.note(strings.brokenName);
    else show(entry.path);
  }
  async function download(entry: { path: string; type: string }): Promise<void> {
    if (entry.type !== 'directory') return follow(fileUrl(id, entry.path));
    try {
      follow(await downloadUrl(id, entry.path));
    } catch (error) {
      toast.failed(strings.downloadFailed, error);
    }
  }
  function pick(input: HTMLInputElement | null, folder: string): void {
    into.current = folder;
    input?.click();
  }
  function inDirectory(folder: string): MenuEntry[] {
    return [
      { label: strings.newFile, onAction: () => ask({ kind: 'file', directory: folder }) },
      { label: strings.newFolder, onAction: () => ask({ kind: 'folder', directory: folder }) },
      { label: strings.uploadFiles, onAction: () => pick(filesInput.current, folder) },
      { label: strings.uploadFolder, onAction: () => pick(folderInput.current, folder) },
      { label: strings.downloadFolder, onAction: () => void download({ path: folder, type: 'directory' }) },
      {
        label: strings.terminalHere,
        onAction: () => navigate(`/sandboxes/${id}/terminal?cwd=${encodeURIComponent(folder)}`),
      },
    ];
  }
  function actions(entry: FileEntry): MenuEntry[] {
    const isDirectory = entry.type === 'directory';
    if (isBroken(entry.name)) return [{ label: strings.brokenName, disabled: true }];
    return [
      ...(isDirectory
        ? [...inDirectory(entry.path), 'separator' as const]
        : [
            { label: strings.open, onAction: () => openEntry(entry) },
            { label: strings.download, onAction: () => void download(entry) },
          ]),
      { label: strings.copyPath, onAction: () => void copyText(entry.path) },
      { label: strings.rename, keys: 'F2', onAction: () => ask({ kind: 'rename', entry }) },
      { label: strings.delete, keys: 'delete', danger: true, onAction: () => askDelete(entry) },
    ];
  }
  function askDelete(entry: FileEntry): void {
    ask({ kind: 'delete', entry, edited: [...edited].some((one) => isIn(entry.path, one)) });
  }
  function deleted(entry: FileEntry): void {
    for (const one of documents.keys()) if (isIn(entry.path, one)) closeTab(id, one);
    if (path !== null && isIn(entry.path, path)) show(closeTab(id, path));
    toggle(entry.path, false);
    toast.done(strings.deleted(plain(entry.name, 80)));
    refresh();
  }
  function moved(from: string, to: string): void {
    renamed(id, from, to);
    if (path !== null && isIn(from, path)) show(to + path.slice(from.length));
    refresh();
  }

  function dragged(event: React.DragEvent): void {
    if (!event.dataTransfer.types.includes('Files')) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = 'copy';
    setTarget((event.target as HTMLElement).closest<HTMLElement>('[data-directory]')?.dataset.directory ?? directory);
  }
  async function dropped(event: React.DragEvent): Promise<void> {
    event.preventDefault();
    const folder = target ?? directory;
    setTarget(null);
    uploads.start(folder, await fromDrop(event.dataTransfer));
  }

  const tree = (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping has its equal in the menu
    <div
      className={styles.side}
      onDragOver={dragged}
      onDragLeave={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setTarget(null);
      }}
      onDrop={(event) => void dropped(event)}
      data-dropping={target === directory || undefined}
    >
      <PathBar
        id={id}
        directory={directory}
        hidden={hidden}
        error={top?.error}
        onGo={(next) => change(id, { root: next })}
        onHidden={(on) => change(id, { hidden: on })}
        onRefresh={refresh}
        actions={inDirectory(directory)}
      />
      <div className={styles.treeBox} data-scroller>
        <Tree
          rows={rows}
          current={path}
          edited={edited}
          target={target === directory ? null : target}
          onToggle={toggle}
          onOpen={openEntry}
          onRename={(entry) => !isBroken(entry.name) && ask({ kind: 'rename', entry })}
          onDelete={(entry) => !isBroken(entry.name) && askDelete(entry)}
          onRetry={refresh}
          actions={actions}
        />
      </div>
      {target !== null && <p className={styles.drop}>{strings.dropHere(plain(target, 80))}</p>}
      <UploadPanel uploads={uploads} />
      <input
        ref={filesInput}
        type="file"
        multiple
        hidden
        onChange={(event) => {
          uploads.start(into.current || directory, fromInput(event.target.files!));
          event.target.value = '';
        }}
      />
      <input
        ref={folderInput}
        type="file"
        hidden
        {...{ webkitdirectory: '' }}
        onChange={(event) => {
          uploads.start(into.current || directory, fromInput(event.target.files!));
          event.target.value = '';
        }}
      />
    </div>
  );
  const viewer = <Viewer id={id} path={path} listed={listed} compact={compact} onShow={show} onGo={go} />;
  return (
    <section className={styles.root} aria-label={strings.region} data-compact={compact || undefined}>
      {notice}
      {compact ? (
        <div className={styles.one}>{path === null ? tree : viewer}</div>
      ) : (
        <SplitPane
          name="files"
          label={strings.tree}
          initial={300}
          min={200}
          small={path === null ? 'first' : 'second'}
          first={tree}
          second={viewer}
        />
      )}
      {asked && (
        <Ask
          id={id}
          asked={asked}
          onClose={() => ask(null)}
          onMade={(made, folder) => {
            open(parentOf(made));
            refresh();
            if (folder) open(made);
            else show(made);
          }}
          onMoved={moved}
          onDeleted={deleted}
        />
      )}
    </section>
  );

  function go(next: string): void {
    change(id, { root: next });
    show(null);
  }
}

function listingOf(
  listings: ReadonlyMap<string, { data?: { path: string; entries: FileEntry[] } }>,
  directory: string,
): FileEntry[] | undefined {
  for (const { data } of listings.values()) if (data?.path === directory) return data.entries;
  return undefined;
}

/** Downloads without leaving the page. */
function follow(address: string): void {
  const anchor = document.createElement('a');
  anchor.href = address;
  anchor.download = '';
  anchor.rel = 'noopener noreferrer';
  anchor.click();
}
