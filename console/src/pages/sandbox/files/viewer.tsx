// The right side: tabs of open files, and the one that is shown.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { ArrowLeft, Download, Save, X } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { type FileEntry, type FileStat, fileStatQuery, fileUrl } from '../../../api';
import { bytes } from '../../../format/size';
import { useShortcuts } from '../../../shortcuts';
import { Button, ConfirmDialog, ErrorBanner, IconButton, KeyHint, Segmented, toast } from '../../../ui';
import { closeTab, useWorkspace } from './documents';
import styles from './files.module.css';
import { Name } from './name';
import { baseOf, kindOf, plain } from './names';
import { Facts, ImageView, LoadingView } from './previews';
import { save } from './save';
import { SqliteView } from './sqlite';
import { strings } from './strings';
import { TextView } from './text-view';

export interface ViewerProps {
  id: string;
  path: string | null;
  /** The file as its directory's listing has it now; undefined if that is not known. */
  listed: FileEntry | undefined;
  /** Whether the tree is not beside it. */
  compact?: boolean;
  onShow: (path: string | null) => void;
  onGo: (directory: string) => void;
}

export function Viewer({ id, path, listed, compact, onShow, onGo }: ViewerProps) {
  const { open, documents } = useWorkspace(id);
  const [closing, setClosing] = useState<string | null>(null);
  function close(file: string): void {
    if (documents.get(file)?.dirty) setClosing(file);
    else forget(file);
  }
  function forget(file: string): void {
    const next = closeTab(id, file);
    if (file === path) onShow(next);
  }
  return (
    <div className={styles.viewer}>
      {open.length > 0 && (
        <nav className={styles.tabs} aria-label={strings.openFiles}>
          <span className={compact ? styles.back : `only-small ${styles.back}`}>
            <IconButton size="sm" label={strings.back} onPress={() => onShow(null)}>
              <ArrowLeft />
            </IconButton>
          </span>
          {open.map((file) => (
            <span key={file} className={styles.tab} data-current={file === path || undefined}>
              <button
                type="button"
                aria-current={file === path || undefined}
                title={plain(file)}
                onClick={() => onShow(file)}
                onAuxClick={(event) => event.button === 1 && close(file)}
              >
                {documents.get(file)?.dirty && <i className={styles.edited} role="img" aria-label={strings.edited} />}
                <Name text={baseOf(file)} className="cut" />
              </button>
              <IconButton size="sm" label={strings.close(plain(baseOf(file), 80))} onPress={() => close(file)}>
                <X />
              </IconButton>
            </span>
          ))}
        </nav>
      )}
      {path === null ? (
        <div className={styles.none}>
          <h2>{strings.noneTitle}</h2>
          <p className="muted">{strings.noneText}</p>
        </div>
      ) : (
        <OneFile key={path} id={id} path={path} listed={listed} onShow={onShow} onGo={onGo} />
      )}
      {closing !== null && (
        <ConfirmDialog
          isOpen
          onClose={() => setClosing(null)}
          title={strings.closeTitle(plain(baseOf(closing), 80))}
          action={strings.closeAction(plain(baseOf(closing), 80))}
          onConfirm={() => forget(closing)}
        >
          <p>{strings.closeText}</p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function OneFile({ id, path, listed, onShow, onGo }: ViewerProps & { path: string }) {
  const client = useQueryClient();
  const document = useWorkspace(id).documents.get(path);
  const stat = useQuery({ ...fileStatQuery(id, path), refetchInterval: listed ? false : 15_000 });
  const [source, setSource] = useState(false);
  const [saving, setSaving] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const kind = stat.data ? kindOf(stat.data) : null;

  // The listing is fetched again and again: what it says about this file tells when to look closer.
  const signature = listed && `${listed.modifiedAt} ${listed.size}`;
  const seen = useRef(signature);
  useEffect(() => {
    if (signature === seen.current) return;
    seen.current = signature;
    void client.invalidateQueries({ queryKey: fileStatQuery(id, path).queryKey });
  }, [signature, client, id, path]);

  async function run(): Promise<void> {
    if (!document || saving || document.conflict?.text != null) return;
    setSaving(true);
    setError(null);
    try {
      const done = await save(id, path);
      if (done === 'saved') toast.done(strings.saved(plain(baseOf(path), 80)));
    } catch (cause) {
      setError(cause);
    } finally {
      setSaving(false);
    }
  }
  useShortcuts([{ keys: 'mod+s', label: strings.save, group: strings.region, inFields: true, run: () => void run() }]);

  const previewable = kind === 'csv' || kind === 'markdown';
  const text = document !== undefined || kind === 'text' || previewable;
  return (
    <div className={styles.file}>
      <header className={styles.fileHead}>
        <Name text={path} className={`mono cut ${styles.filePath}`} />
        {document?.dirty && <span className="meta">{strings.edited}</span>}
        <span className="grow" />
        {stat.data && stat.data.type === 'file' && <span className="meta num only-wide">{bytes(stat.data.size)}</span>}
        {previewable && (
          <Segmented
            size="sm"
            label={strings.view}
            value={source ? 'source' : 'preview'}
            onChange={(value) => setSource(value === 'source')}
            options={[
              { id: 'preview', label: strings.preview },
              { id: 'source', label: strings.source },
            ]}
          />
        )}
        {stat.data?.type === 'file' && (
          <a className="btn quiet icon sm" href={fileUrl(id, path)} download aria-label={strings.download}>
            <Download className="lucide" />
          </a>
        )}
        {text && (
          <Button size="sm" onPress={run} isPending={saving} isDisabled={!document?.dirty && !saving}>
            <Save />
            {saving ? strings.saving : strings.save}
            <KeyHint keys="mod+s" className="only-wide" />
          </Button>
        )}
      </header>
      {error !== null && (
        <div className={styles.banner}>
          <ErrorBanner error={error} lead={strings.saveFailed} onRetry={run} />
        </div>
      )}
      {text ? (
        <TextView
          id={id}
          path={path}
          stat={stat.error ? undefined : stat.data}
          preview={previewable && !source ? kind : null}
          onOpen={onShow}
        />
      ) : stat.error ? (
        <div className={styles.padded}>
          <ErrorBanner error={stat.error} onRetry={() => void stat.refetch()} />
        </div>
      ) : !stat.data || !kind ? (
        <LoadingView />
      ) : kind === 'image' ? (
        <ImageView id={id} path={path} name={stat.data.name} version={versionOf(stat.data)} />
      ) : kind === 'sqlite' ? (
        <SqliteView id={id} path={path} version={versionOf(stat.data)} />
      ) : (
        <Facts id={id} stat={stat.data} kind={kind} onGo={() => onGo(path)} />
      )}
    </div>
  );
}

const versionOf = (stat: FileStat) => stat.etag ?? `${stat.modifiedAt} ${stat.size}`;
