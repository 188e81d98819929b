// The first step: a GPU, of those that the server has.
import { Check } from 'lucide-react';
import { Link } from '../../ui';
import styles from './create.module.css';
import { strings } from './strings';

export function GpuStep() {
  return (
    <div className="stack">
      <p className="muted">
        {strings.gpu.missing} {strings.gpu.missingText} <Link href="/server">{strings.gpu.about}</Link>
      </p>
      <div role="radiogroup" aria-label={strings.gpu.title} className={styles.cards}>
        <label className={`card ${styles.pick} on`}>
          <input type="radio" name="gpu" className="sr" checked readOnly />
          <span className={styles.glyph} aria-hidden="true">
            –
          </span>
          <span className="grow">
            <span className="row">
              <b className="grow">{strings.gpu.none}</b>
              <Check className={`lucide ${styles.tick}`} />
            </span>
            <span className="muted">{strings.gpu.noneText}</span>
          </span>
        </label>
      </div>
    </div>
  );
}
