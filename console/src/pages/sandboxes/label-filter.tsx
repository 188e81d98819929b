// Adds a label to the filters: one of those in the list, or another.
import { Tag } from 'lucide-react';
import { useState } from 'react';
import { Dialog, DialogTrigger, Popover } from 'react-aria-components';
import { plainName } from '../../format/plain';
import { Button, TextField } from '../../ui';
import { labelOf } from './filter';
import styles from './sandboxes.module.css';
import { strings } from './strings';

export function LabelFilter({ known, onAdd }: { known: readonly string[]; onAdd: (label: string) => void }) {
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState('');
  const [wrong, setWrong] = useState(false);
  function add(label: string): void {
    const pair = labelOf(label);
    if (!pair) {
      setWrong(true);
      return;
    }
    onAdd(pair.join('='));
    setText('');
    setOpen(false);
  }
  return (
    <DialogTrigger isOpen={isOpen} onOpenChange={setOpen}>
      <Button look="quiet" className="filter">
        <Tag />
        {strings.filters.label}
      </Button>
      <Popover placement="bottom start" offset={4} className="popover">
        <Dialog className={`menu ${styles.labels}`} aria-label={strings.filters.label}>
          <form
            className={styles.labelForm}
            onSubmit={(event) => {
              event.preventDefault();
              add(text);
            }}
          >
            <TextField
              label={strings.labelField}
              value={text}
              onChange={(next) => {
                setText(next);
                setWrong(false);
              }}
              placeholder="env=staging"
              error={wrong ? strings.labelWrong : null}
              mono
              autoFocus
              className="grow"
              after={
                <Button type="submit" size="sm" look="quiet">
                  {strings.labelAdd}
                </Button>
              }
            />
          </form>
          {known.length > 0 && <div className="head">{strings.labelKnown}</div>}
          {known.map((label) => (
            <button key={label} type="button" onClick={() => add(label)}>
              <span className="mono cut">{plainName(label, 60)}</span>
            </button>
          ))}
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}
