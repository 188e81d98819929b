// A file of a chat: a picture, a text, a table, or a button that downloads it. Nothing of it is run.
import { useQuery } from '@tanstack/react-query';
import { ArrowLeft, Download } from 'lucide-react';
import { Suspense, useState } from 'react';
import { type Attachment, attachmentUrl } from '../../api';
import { send } from '../../api/client';
import { plainName } from '../../format/plain';
import { bytes } from '../../format/size';
import { lazyPart } from '../../lazy-part';
import { ErrorBanner, IconButton, Segmented, SkeletonLines } from '../../ui';
import { Markdown } from '../markdown';
import { CodeBlock } from '../markdown/code-block';
import styles from './panes.module.css';
import { MOST_BYTES, pretty, previewKind, textOf } from './preview';
import { strings } from './strings';

const CsvView = lazyPart(
  () => import('../../pages/sandbox/files/previews'),
  (module) => module.CsvView,
);

export function Artifact({ file, onBack }: { file: Attachment; onBack?: () => void }) {
  const kind = previewKind(file);
  const [isSource, setSource] = useState(false);
  const name = plainName(file.name, 120);
  const hasSource = kind === 'markdown' || kind === 'csv';
  return (
    <section className={styles.artifact} aria-label={`${strings.region.artifact} ${name}`}>
      <header className={styles.head}>
        {onBack && (
          <IconButton size="sm" label={strings.back} onPress={onBack}>
            <ArrowLeft />
          </IconButton>
        )}
        <span className="mono cut" title={name}>
          {name}
        </span>
        <span className="meta num">{bytes(file.size)}</span>
        <span className="grow" />
        {hasSource && (
          <Segmented
            size="sm"
            label={strings.view}
            value={isSource ? 'source' : 'preview'}
            onChange={(value) => setSource(value === 'source')}
            options={[
              { id: 'preview', label: strings.preview },
              { id: 'source', label: strings.source },
            ]}
          />
        )}
        <a
          className="btn quiet icon sm"
          href={attachmentUrl(file.id)}
          download={file.name}
          aria-label={strings.downloadIt(name)}
        >
          <Download className="lucide" />
        </a>
      </header>
      {kind === 'image' ? (
        <Picture file={file} name={name} />
      ) : kind === 'none' ? (
        <Card file={file} name={name} />
      ) : (
        <Text key={file.id} file={file} name={name} kind={isSource ? 'code' : kind} />
      )}
    </section>
  );
}

function Picture({ file, name }: { file: Attachment; name: string }) {
  const [isBroken, setBroken] = useState(false);
  if (isBroken) return <Card file={file} name={name} why={strings.noImage} />;
  return (
    <div className={styles.picture}>
      <img src={attachmentUrl(file.id, true)} alt={name} onError={() => setBroken(true)} />
    </div>
  );
}

function Card({ file, name, why = strings.noPreview }: { file: Attachment; name: string; why?: string }) {
  return (
    <div className={styles.empty}>
      <h2 className="cut">{name}</h2>
      <p className="muted">{why}</p>
      <a className="btn primary" href={attachmentUrl(file.id)} download={file.name}>
        <Download className="lucide" />
        {strings.download}
      </a>
    </div>
  );
}

async function fetchText(file: Attachment, signal: AbortSignal): Promise<string | null> {
  const isCut = file.size > MOST_BYTES;
  const headers: Record<string, string> = isCut ? { Range: `bytes=0-${MOST_BYTES - 1}` } : {};
  const response = await send('GET', attachmentUrl(file.id), { headers, signal });
  const content = new Uint8Array(await response.arrayBuffer());
  return textOf(content.subarray(0, MOST_BYTES), isCut || content.length > MOST_BYTES);
}

function Text({ file, name, kind }: { file: Attachment; name: string; kind: 'markdown' | 'csv' | 'code' }) {
  const query = useQuery({
    queryKey: ['attachment', file.id, 'text'],
    queryFn: ({ signal }) => fetchText(file, signal),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
  if (query.error) {
    return (
      <div className={styles.padded}>
        <ErrorBanner error={query.error} onRetry={() => void query.refetch()} />
      </div>
    );
  }
  if (query.data === undefined) {
    return (
      <div className={styles.padded}>
        <SkeletonLines lines={6} />
      </div>
    );
  }
  const text = query.data;
  if (text === null) return <Card file={file} name={name} />;
  return (
    <>
      {file.size > MOST_BYTES && <p className={`meta ${styles.note}`}>{strings.cut}</p>}
      {kind === 'csv' ? (
        <Suspense fallback={null}>
          <CsvView text={text} name={file.name} />
        </Suspense>
      ) : (
        <div className={kind === 'code' ? styles.source : styles.text} data-scroller>
          {kind === 'code' ? (
            <CodeBlock text={pretty(file.name, text)} language={extension(file.name)} />
          ) : (
            <Markdown text={text} />
          )}
        </div>
      )}
    </>
  );
}

/** By which its colours are chosen. */
const extension = (name: string): string =>
  /\.([\w+-]{1,16})$/.exec(name)?.[1] ?? /^[\w.-]{1,24}$/.exec(name)?.[0] ?? '';
