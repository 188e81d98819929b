// Files and screenshots of the message that is being written.
import { FileText, RotateCw, X } from 'lucide-react';
import { attachmentUrl } from '../../api';
import { bytes } from '../../format/size';
import { IconButton } from '../../ui';
import { visibleLine } from '../state/text';
import { strings } from '../strings';
import styles from './composer.module.css';
import type { UploadItem, Uploads } from './use-uploads';

export function Chips({ uploads }: { uploads: Uploads }) {
  if (uploads.items.length === 0) return null;
  return (
    <ul className={styles.chips}>
      {uploads.items.map((item) => (
        <Chip key={item.key} item={item} uploads={uploads} />
      ))}
    </ul>
  );
}

function Chip({ item, uploads }: { item: UploadItem; uploads: Uploads }) {
  const name = item.shot ? strings.screenshotOf(visibleLine(item.shot.path ?? '/', 80)) : visibleLine(item.name, 120);
  const rect = item.shot?.rect;
  const percent = Math.round(item.sent * 100);
  return (
    <li className={styles.chip} data-failed={item.state === 'failed' || undefined}>
      {item.shot && item.uploaded ? (
        <img src={attachmentUrl(item.uploaded.id, true)} alt="" width={26} height={18} />
      ) : (
        <FileText className="lucide s" />
      )}
      <span className="cut">{name}</span>
      <span
        className={item.state === 'failed' ? styles.error : 'meta num'}
        role={item.state === 'failed' ? 'alert' : undefined}
      >
        {item.state === 'failed'
          ? visibleLine(item.error ?? strings.uploadFailed, 200)
          : item.state === 'done'
            ? rect
              ? strings.size(rect.width, rect.height)
              : bytes(item.size)
            : strings.uploading(percent)}
      </span>
      {item.state === 'sending' && (
        <progress className={styles.progress} max={100} value={percent} aria-label={`${strings.attach}: ${name}`} />
      )}
      {item.state === 'failed' && item.size <= 100 * 1024 * 1024 && (
        <IconButton size="sm" label={`${strings.again}: ${name}`} onPress={() => uploads.retry(item.key)}>
          <RotateCw />
        </IconButton>
      )}
      <IconButton size="sm" label={strings.remove(name)} onPress={() => uploads.remove(item.key)}>
        <X />
      </IconButton>
    </li>
  );
}
