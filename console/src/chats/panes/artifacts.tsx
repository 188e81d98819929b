// All files of a chat, the newest first.
import { File, FileText, Image } from 'lucide-react';
import { type Attachment, attachmentUrl } from '../../api';
import { plainName } from '../../format/plain';
import { bytes } from '../../format/size';
import styles from './panes.module.css';
import { previewKind } from './preview';
import { strings } from './strings';

export function Artifacts({ files, onOpen }: { files: readonly Attachment[]; onOpen: (id: string) => void }) {
  const newest = files.toReversed();
  return (
    <section className={styles.artifact} aria-label={strings.region.artifacts}>
      {newest.length === 0 ? (
        <div className={styles.empty}>
          <h2>{strings.noArtifact}</h2>
          <p className="muted">{strings.noArtifactText}</p>
        </div>
      ) : (
        <ul className={styles.files} data-scroller>
          {newest.map((file) => (
            <li key={file.id}>
              <button type="button" className={styles.file} onClick={() => onOpen(file.id)}>
                <Thumb file={file} />
                <span className={styles.fileText}>
                  <span className="cut">{plainName(file.name, 120)}</span>
                  <span className="meta num cut">
                    {strings.from[file.kind]}, {bytes(file.size)}
                  </span>
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Thumb({ file }: { file: Attachment }) {
  const kind = previewKind(file);
  if (kind === 'image' && file.size < 5 * 1_048_576) {
    return (
      <span className={styles.thumb}>
        <img src={attachmentUrl(file.id, true)} alt="" loading="lazy" />
      </span>
    );
  }
  const Icon = kind === 'image' ? Image : kind === 'none' ? File : FileText;
  return (
    <span className={styles.thumb}>
      <Icon className="lucide" aria-hidden="true" />
    </span>
  );
}
