// A name from a sandbox: as text, with what cannot be seen made visible, and its direction kept to itself.

import styles from './files.module.css';
import { pieces, plain } from './names';

export function Name({ text, className }: { text: string; className?: string }) {
  const parts = pieces(text);
  return (
    <bdi className={className} title={plain(text)}>
      {parts.map((piece, i) =>
        piece.mark ? (
          <span key={i} className={styles.mark}>
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </bdi>
  );
}
