// Things that came of calls: services and files.
import { Download, Eye, FileText, Globe, Image as ImageIcon } from 'lucide-react';
import { type Attachment, attachmentUrl } from '../../api';
import { serviceStatus } from '../../format/service';
import { bytes } from '../../format/size';
import { Button, IconButton, useNow } from '../../ui';
import { useActions, useLookup } from '../actions';
import type { Started } from '../state/blocks';
import { visibleLine } from '../state/text';
import { strings } from '../strings';
import styles from './conversation.module.css';

export function Cards({ attachments, services }: { attachments: readonly Attachment[]; services: readonly Started[] }) {
  return (
    <div className={styles.cards}>
      {services.map(({ id, name }) => (
        <ServiceCard key={id} id={id} name={name} />
      ))}
      {attachments.map((attachment) => (
        <ArtifactCard key={attachment.id} attachment={attachment} />
      ))}
    </div>
  );
}

function ServiceCard({ id, name }: Started) {
  const { openService } = useActions();
  const service = useLookup().services.get(id);
  const now = useNow();
  const status = service ? serviceStatus(service, now) : null;
  return (
    <div className={styles.card} data-state={status?.state ?? 'stopped'}>
      <span className={styles.thumb} data-service>
        <Globe />
      </span>
      <div className="grow">
        <b className="cut">{visibleLine(service?.name ?? name, 60) || strings.service}</b>
        <div className="meta cut">
          {service && status ? strings.onPort(status.word, service.port) : strings.serviceGone}
        </div>
      </div>
      {service && (
        <Button size="sm" onPress={() => openService(id)} aria-label={`${service.name} · ${strings.viewInPane}`}>
          {strings.viewInPane}
        </Button>
      )}
    </div>
  );
}

function ArtifactCard({ attachment: given }: { attachment: Attachment }) {
  const { openArtifact } = useActions();
  const attachment = useLookup().attachments.get(given.id) ?? given;
  const name = visibleLine(attachment.name, 200);
  const isImage = attachment.mediaType.startsWith('image/');
  return (
    <div className={styles.card}>
      <span className={styles.thumb}>{isImage ? <ImageIcon /> : <FileText />}</span>
      <div className="grow">
        <b className="cut" title={name}>
          {name}
        </b>
        <div className="meta cut">{strings.artifact(bytes(attachment.size))}</div>
      </div>
      <IconButton size="sm" label={strings.preview(name)} onPress={() => openArtifact(attachment)}>
        <Eye />
      </IconButton>
      <a
        className="btn icon sm"
        href={attachmentUrl(attachment.id)}
        download={attachment.name}
        aria-label={strings.download(name)}
        title={strings.download(name)}
      >
        <Download />
      </a>
    </div>
  );
}

/** A file of a person's message. */
export function FileBadge({ id, name, kind }: { id: string; name?: string; kind: 'file' | 'image' | 'screenshot' }) {
  const { openArtifact } = useActions();
  const known = useLookup().attachments.get(id);
  const fallback = kind === 'file' ? strings.file : kind === 'image' ? strings.image : strings.screenshot;
  const label = visibleLine(name || known?.name || fallback, 120);
  return (
    <button
      type="button"
      className={styles.badge}
      disabled={!known}
      title={known ? `${label}, ${bytes(known.size)}` : label}
      onClick={() => known && openArtifact(known)}
    >
      {kind === 'file' ? (
        <FileText className="lucide s" />
      ) : (
        <img src={attachmentUrl(id, true)} alt="" loading="lazy" width={26} height={18} />
      )}
      <span className="cut">{label}</span>
      {known?.status === 'failed' && <span className={styles.bad}>{strings.uploadFailed}</span>}
    </button>
  );
}
