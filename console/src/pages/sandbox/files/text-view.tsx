// A text: editor or preview, and what to do when somebody else has changed it.
import { useQuery } from '@tanstack/react-query';
import { TriangleAlert } from 'lucide-react';
import { Suspense, useEffect, useEffectEvent, useState } from 'react';
import type { FileStat } from '../../../api';
import { CodeEditor } from '../../../editor/editor';
import { decode } from '../../../editor/text';
import { lazyPart } from '../../../lazy-part';
import { Button, ErrorBanner, toast } from '../../../ui';
import { type Document, edited, put, rewrite, setDocument, useWorkspace } from './documents';
import styles from './files.module.css';
import { baseOf, parentOf, resolve } from './names';
import { CsvView, Facts, LoadingView, SmallImage } from './previews';
import { fetchFile, reload, save, showConflict } from './save';
import { strings } from './strings';

const Merge = lazyPart(
  () => import('../../../editor/merge'),
  (module) => module.Merge,
);
const Markdown = lazyPart(
  () => import('./markdown'),
  (module) => module.Markdown,
);

export interface TextViewProps {
  id: string;
  path: string;
  /** Unset while it is not known, or when the file is gone. */
  stat?: FileStat;
  preview: 'csv' | 'markdown' | null;
  onOpen: (path: string) => void;
}

export function TextView({ id, path, stat, preview, onOpen }: TextViewProps) {
  const document = useWorkspace(id).documents.get(path);
  const [broken, setBroken] = useState(false);
  const content = useQuery({
    queryKey: ['content', id, path],
    queryFn: ({ signal }) => fetchFile(id, path, signal),
    enabled: !document && !broken,
    gcTime: 0,
    staleTime: 0,
  });
  useEffect(() => {
    if (!content.data || document) return;
    const file = decode(content.data.bytes);
    if (file) put(id, path, file, content.data.etag);
    else setBroken(true);
  }, [content.data, document, id, path]);

  const etag = stat?.etag;
  const changedElsewhere = useEffectEvent(() => {
    if (!document || !etag || etag === document.etag) return;
    if (!document.dirty) void reload(id, path).catch(() => {});
  });
  useEffect(() => {
    if (etag) changedElsewhere();
  }, [etag]);

  if (broken && stat) return <Facts id={id} stat={stat} kind="binary" onGo={() => {}} />;
  if (!document) {
    return content.error ? (
      <div className={styles.padded}>
        <ErrorBanner error={content.error} onRetry={() => void content.refetch()} />
      </div>
    ) : (
      <LoadingView />
    );
  }
  if (document.conflict?.text != null) return <Conflict id={id} document={document} theirs={document.conflict.text} />;
  const gone = document.conflict !== null && document.conflict.etag === null;
  const differs = document.dirty && etag !== undefined && etag !== null && etag !== document.etag;
  return (
    <>
      {gone && <Warning text={strings.gone} action={strings.saveNew} onAction={() => void again(id, path, null)} />}
      {!gone && (differs || document.conflict) && (
        <Warning
          text={strings.changed}
          action={strings.compare}
          onAction={() => void showConflict(id, path).catch((error) => toast.failed(strings.saveFailed, error))}
        />
      )}
      {preview ? (
        <Suspense fallback={<LoadingView />}>
          {preview === 'csv' ? (
            <CsvView text={document.state.doc.toString()} name={baseOf(path)} />
          ) : (
            <div className={styles.scroll} data-scroller>
              <Markdown
                text={document.state.doc.toString()}
                onOpen={(link) => onOpen(resolve(parentOf(path), link))}
                image={(link, alt) => <SmallImage id={id} path={resolve(parentOf(path), link)} alt={alt} />}
              />
            </div>
          )}
        </Suspense>
      ) : (
        <CodeEditor
          key={path}
          className={styles.editor}
          state={document.state}
          revision={document.revision}
          name={document.plain ? null : baseOf(path)}
          onChange={(state) => edited(id, path, state)}
        />
      )}
    </>
  );
}

async function again(id: string, path: string, etag: string | null): Promise<void> {
  try {
    setDocument(id, path, { conflict: null });
    await save(id, path, etag);
  } catch (error) {
    toast.failed(strings.saveFailed, error);
  }
}

function Warning({ text, action, onAction }: { text: string; action: string; onAction: () => void }) {
  return (
    <div className={`banner ${styles.banner}`} data-state="waiting" role="status">
      <TriangleAlert />
      <span className="grow">{text}</span>
      <Button size="sm" onPress={onAction}>
        {action}
      </Button>
    </div>
  );
}

function Conflict({ id, document, theirs }: { id: string; document: Document; theirs: string }) {
  const { path, separator } = document;
  const [mine, setMine] = useState(() => document.state.sliceDoc());
  const [busy, setBusy] = useState(false);
  const small = window.innerWidth < 760;
  async function overwrite(): Promise<void> {
    setBusy(true);
    const etag = document.conflict?.etag ?? null;
    rewrite(id, path, mine);
    await again(id, path, etag);
    setBusy(false);
  }
  function take(): void {
    const crlf = theirs.includes('\r\n') && !/(^|[^\r])\n/.test(theirs);
    put(id, path, { text: theirs, separator: crlf ? '\r\n' : '\n' }, document.conflict?.etag ?? null);
  }
  function keep(): void {
    if (mine !== document.state.sliceDoc()) rewrite(id, path, mine);
    setDocument(id, path, { conflict: null });
  }
  return (
    <section className={styles.conflict} aria-label={strings.conflictTitle}>
      <div className={`banner ${styles.banner}`} data-state="waiting" role="alert">
        <TriangleAlert />
        <span className="grow">{small ? strings.conflictSmall : strings.conflictText}</span>
      </div>
      {!small && (
        <div className={styles.sides} aria-hidden="true">
          <span>{strings.theirs}</span>
          <span>{strings.mine}</span>
        </div>
      )}
      <Suspense fallback={<LoadingView />}>
        <Merge
          className={styles.merge}
          theirs={theirs}
          mine={mine}
          separator={separator}
          labels={{ theirs: strings.theirs, mine: strings.mine }}
          onChange={setMine}
        />
      </Suspense>
      <footer className={styles.conflictFoot}>
        <Button onPress={keep}>{strings.keepEditing}</Button>
        <Button onPress={take}>{strings.takeTheirs}</Button>
        <Button look="danger" onPress={overwrite} isPending={busy}>
          {strings.overwrite}
        </Button>
      </footer>
    </section>
  );
}
