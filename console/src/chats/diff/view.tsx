// Changed lines in colours, with their numbers. Long ones are folded.
import { useId, useState } from 'react';
import { plainName } from '../../format/plain';
import { Button } from '../../ui';
import { clean } from '../markdown/clean';
import styles from './diff.module.css';
import type { DiffLine, FileDiff } from './lines';
import { strings } from './strings';

export interface DiffProps {
  files: readonly FileDiff[];
  /** Lines of each file that are shown before one asks for all; more than 0. */
  fold?: number;
  /** Whether the name of an only file stands above it; those of several always do. */
  names?: boolean;
}

export function Diff({ files, fold = 40, names = false }: DiffProps) {
  if (files.length === 0) return <p className={`meta ${styles.none}`}>{strings.none}</p>;
  return (
    <div className={styles.root} dir="ltr">
      {files.map((file, i) => (
        <File key={i} file={file} fold={fold} isNamed={names || files.length > 1} />
      ))}
    </div>
  );
}

/** "+84 −2", for a row. Nothing where nothing is counted. */
export function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <span className={`num ${styles.counts}`}>
      {added > 0 && (
        <span className={styles.plus}>
          <span aria-hidden="true">+{added}</span>
          <span className="sr">{strings.added(added)}</span>
        </span>
      )}{' '}
      {removed > 0 && (
        <span className={styles.minus}>
          <span aria-hidden="true">−{removed}</span>
          <span className="sr">{strings.removed(removed)}</span>
        </span>
      )}
    </span>
  );
}

function File({ file, fold, isNamed }: { file: FileDiff; fold: number; isNamed: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  // A fold that hides three lines is none.
  const isLong = file.lines.length > fold + 3;
  const lines = isLong && !isOpen ? file.lines.slice(0, fold) : file.lines;
  const path = plainName(file.path, 300);
  const note = strings.change(file);
  return (
    <section className={styles.file} aria-label={strings.label(path)}>
      {isNamed && (
        <header className={styles.head}>
          <span className="mono cut">{path}</span>
          {note && <span className="meta cut">{plainName(note, 300)}</span>}
          <Counts added={file.added} removed={file.removed} />
        </header>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls sideways must be reachable by keyboard */}
      <div className={styles.scroller} tabIndex={0} role="group" aria-label={strings.label(path)} id={id}>
        <div className={styles.lines} style={{ '--digits': digitsOf(file) } as React.CSSProperties}>
          {lines.map((line, i) => (
            <Line key={i} line={line} />
          ))}
        </div>
      </div>
      {isLong && (
        <Button size="sm" look="quiet" aria-expanded={isOpen} aria-controls={id} onPress={() => setOpen(!isOpen)}>
          {isOpen ? strings.showLess : strings.showAll(file.lines.length + file.left)}
        </Button>
      )}
      {file.left > 0 && (isOpen || !isLong) && <p className={`meta ${styles.none}`}>{strings.left(file.left)}</p>}
    </section>
  );
}

const SIGNS = { same: ' ', add: '+', del: '−', gap: '' };

function Line({ line }: { line: DiffLine }) {
  if (line.kind === 'gap') {
    return (
      <div className={styles.gap}>
        <span className={styles.number} aria-hidden="true" />
        <span aria-hidden="true">⋯</span> {clean(line.text)}
      </div>
    );
  }
  return (
    <div className={`${styles.line} ${styles[line.kind]}`}>
      <span className={styles.number} aria-hidden="true">
        {line.new ?? line.old}
      </span>
      <span className={styles.sign} aria-hidden="true">
        {SIGNS[line.kind]}
      </span>
      {line.kind !== 'same' && (
        <span className="sr">{line.kind === 'add' ? strings.addedLine : strings.removedLine}</span>
      )}
      <span>{clean(line.text) || '\u200b'}</span>
    </div>
  );
}

/** How wide the numbers are; 0 where there are none. */
function digitsOf(file: FileDiff): number {
  const numbers = file.lines.map((line) => line.new ?? line.old ?? 0);
  const most = numbers.reduce((one, other) => Math.max(one, other), 0);
  return most === 0 ? 0 : String(most).length;
}
