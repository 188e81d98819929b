// Files to send along, by drag and drop or chosen.
import { Upload, X } from 'lucide-react';
import { useRef, useState } from 'react';
import { plainName } from '../../format/plain';
import { bytes } from '../../format/size';
import { Button, IconButton } from '../../ui';
import styles from './create.module.css';
import { Problem } from './problem';
import { strings } from './strings';

const words = strings.config;
const MOST = 200;

export interface FilesProps {
  files: readonly File[];
  onChange: (files: File[]) => void;
  problem?: string;
}

/** Only files: a folder comes without its size, and cannot be read. */
function dropped(event: React.DragEvent): File[] {
  const items = [...event.dataTransfer.items];
  const isFolder = items.map((item) => item.webkitGetAsEntry?.()?.isDirectory === true);
  return [...event.dataTransfer.files].filter((_, i) => !isFolder[i]);
}

export function Files({ files, onChange, problem }: FilesProps) {
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const add = (more: readonly File[]) => {
    const names = new Set(more.map((file) => file.name));
    onChange([...files.filter((file) => !names.has(file.name)), ...more]);
  };
  return (
    <div className="stack">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the button does the same by keyboard */}
      <div
        className={styles.drop}
        data-over={isOver || undefined}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          add(dropped(event));
        }}
      >
        <Upload />
        <span className="muted">{words.drop}</span>
        <Button size="sm" onPress={() => input.current?.click()}>
          {words.choose}
        </Button>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          aria-label={words.filesLabel}
          onChange={(event) => {
            add([...(event.target.files ?? [])]);
            event.target.value = '';
          }}
        />
      </div>
      {files.length > 0 && (
        <ul className={styles.files}>
          {files.map((file) => (
            <li key={file.name} className="row">
              <span className="mono cut grow">{plainName(file.name, 120)}</span>
              <span className="meta num">{bytes(file.size)}</span>
              <IconButton
                label={words.remove(plainName(file.name, 40))}
                size="sm"
                onPress={() => onChange(files.filter((other) => other !== file))}
              >
                <X />
              </IconButton>
            </li>
          ))}
        </ul>
      )}
      <Problem text={files.length > MOST ? words.tooMany : problem} />
    </div>
  );
}
