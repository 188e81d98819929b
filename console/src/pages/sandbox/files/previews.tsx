// What is shown in place of an editor: an image, a table, facts.
import { useQuery } from '@tanstack/react-query';
import { Download } from 'lucide-react';
import { useEffect, useMemo, useState } from 'react';
import { type FileStat, fileUrl, readFile, statFile } from '../../../api';
import { bytes } from '../../../format/size';
import { Button, DataList, ErrorBanner, SkeletonLines, Time } from '../../../ui';
import { parseCsv } from './csv';
import { Grid } from './grid';
import { imageType, plain } from './names';
import styles from './preview.module.css';
import { strings } from './strings';

const MAX_IMAGE = 20 * 1024 * 1024;

/** The address of an image in this page's memory: what the bytes are decides, and not what the file is called. */
function useImage(id: string, path: string, version: string) {
  const query = useQuery({
    queryKey: ['image', id, path, version],
    queryFn: async ({ signal }) => {
      // A text may name anything as its image.
      const { size } = await statFile(id, path, signal);
      if (size > MAX_IMAGE) throw new Error(strings.badImage);
      const { bytes } = await readFile(id, path, signal);
      const type = imageType(new Uint8Array(bytes, 0, Math.min(16, bytes.byteLength)));
      if (!type) throw new Error(strings.badImage);
      return new Blob([bytes], { type });
    },
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    if (!query.data) return;
    const made = URL.createObjectURL(query.data);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [query.data]);
  return { address, error: query.error };
}

export function ImageView({ id, path, name, version }: { id: string; path: string; name: string; version: string }) {
  const { address, error } = useImage(id, path, version);
  const [size, setSize] = useState<[number, number] | null>(null);
  const [broken, setBroken] = useState(false);
  if (error || broken) {
    return <div className={styles.padded}>{error ? <ErrorBanner error={error} /> : <p>{strings.badImage}</p>}</div>;
  }
  return (
    <figure className={styles.image}>
      {address && (
        <img
          src={address}
          alt={strings.image(plain(name, 100))}
          onLoad={(event) => setSize([event.currentTarget.naturalWidth, event.currentTarget.naturalHeight])}
          onError={() => setBroken(true)}
        />
      )}
      <figcaption className="meta num">{size && strings.imageSize(...size)}</figcaption>
    </figure>
  );
}

/** An image in a text of the same sandbox. */
export function SmallImage({ id, path, alt }: { id: string; path: string; alt: string }) {
  const { address, error } = useImage(id, path, '');
  if (error) return <span className={styles.noImage}>{plain(alt || path, 100)}</span>;
  return address && <img src={address} alt={alt.slice(0, 300)} className={styles.smallImage} />;
}

export function CsvView({ text, name }: { text: string; name: string }) {
  const csv = useMemo(() => parseCsv(text), [text]);
  const [head, ...rows] = csv.rows;
  if (!head) return <p className={styles.padded}>{strings.csvEmpty}</p>;
  const columns = Array.from({ length: csv.columns }, (_, i) => plain(head[i] ?? '', 100));
  return (
    <div className={styles.csv}>
      <Grid
        label={strings.table(plain(name, 80))}
        columns={columns}
        rows={rows}
        cell={(value) => plain(String(value ?? ''), 400)}
      />
      <footer className={`meta num ${styles.gridFoot}`}>
        {strings.csvRows(rows.length, csv.columns)}
        {csv.truncated && ` · ${strings.csvCut}`}
      </footer>
    </div>
  );
}

export function Facts({
  id,
  stat,
  kind,
  onGo,
}: {
  id: string;
  stat: FileStat;
  kind: 'large' | 'binary' | 'special' | 'directory';
  onGo: () => void;
}) {
  return (
    <div className={styles.facts}>
      <h2>{strings.factsTitle[kind]}</h2>
      <p className="muted">{strings.factsText[kind]}</p>
      <DataList
        items={[
          [strings.facts.size, kind === 'directory' ? null : bytes(stat.size)],
          [strings.facts.type, stat.mediaType?.slice(0, 100)],
          [strings.facts.mode, <code key="mode">{stat.mode}</code>],
          [strings.facts.changed, stat.modifiedAt && <Time key="time" at={stat.modifiedAt} />],
          [strings.facts.target, stat.target && <code key="target">{plain(stat.target)}</code>],
        ]}
      />
      {kind === 'directory' && (
        <Button look="primary" onPress={onGo}>
          {strings.goThere}
        </Button>
      )}
      {(kind === 'large' || kind === 'binary') && (
        <a className="btn primary" href={fileUrl(id, stat.path)} download>
          <Download className="lucide" />
          {strings.download}
        </a>
      )}
    </div>
  );
}

export function LoadingView() {
  return (
    <div className={styles.padded}>
      <SkeletonLines lines={6} />
    </div>
  );
}
