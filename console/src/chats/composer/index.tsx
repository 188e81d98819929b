// The box in which a message is written: text, files, and what shall answer it.
import { ArrowUp, Paperclip, Square } from 'lucide-react';
import { type Ref, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react';
import { Button, IconButton, KeyHint } from '../../ui';
import { strings } from '../strings';
import type { Uploaded } from './body';
import { Chips } from './chips';
import { type Choice, Choices } from './choices';
import styles from './composer.module.css';
import { loadDraft, storeDraft } from './draft';
import { type Uploads, useUploads } from './use-uploads';

export interface ComposerHandle {
  focus: () => void;
  uploads: Pick<Uploads, 'add' | 'addShot'>;
  setText: (text: string) => void;
  /** Only if nothing stands there. */
  suggest: (text: string) => void;
}

export interface ComposerProps {
  /** Under this name the draft is kept. */
  name: string;
  choice: Choice;
  onChoice: (choice: Choice) => void;
  /** A turn runs or waits: messages queue. */
  busy: boolean;
  stopping?: boolean;
  placeholder: string;
  autoFocus?: boolean;
  /** The box is emptied at once; a rejection gives its contents back. */
  onSend: (text: string, files: Uploaded[], steer: boolean) => Promise<void>;
  onStop?: () => void;
  ref?: Ref<ComposerHandle>;
}

export function Composer(props: ComposerProps) {
  const { name, choice, onChoice, busy, stopping, placeholder, autoFocus, onSend, onStop, ref } = props;
  const [draft] = useState(() => loadDraft(name));
  const [text, setText] = useState(draft.text);
  const [sending, setSending] = useState(false);
  const [waits, setWaits] = useState(false);
  const uploads = useUploads(draft.files);
  const area = useRef<HTMLTextAreaElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const files = uploads.items.flatMap((item) => item.uploaded ?? []);
  const empty = text.trim() === '' && files.length === 0;

  useImperativeHandle(ref, () => ({
    focus: () => area.current?.focus(),
    uploads: { add: uploads.add, addShot: uploads.addShot },
    setText: (next) => {
      setText(next);
      area.current?.focus();
    },
    suggest: (next) => {
      setText((old) => (old.trim() === '' ? next : old));
      area.current?.focus();
    },
  }));
  // biome-ignore lint/correctness/useExhaustiveDependencies: files are new objects each time; their ids say what they are
  useEffect(() => storeDraft(name, { text, files }), [name, text, files.map((file) => file.id).join()]);
  useGrowing(area, text);

  async function send(steer: boolean): Promise<void> {
    if (empty || sending) return;
    if (uploads.busy) {
      setWaits(true);
      return;
    }
    const said = text;
    setSending(true);
    setText('');
    const giveBack = uploads.clear();
    try {
      await onSend(said.trim(), files, steer);
    } catch {
      // The page around it says why.
      setText((now) => now || said);
      giveBack();
    } finally {
      setSending(false);
    }
  }
  function onKeyDown(event: React.KeyboardEvent<HTMLTextAreaElement>): void {
    if (event.nativeEvent.isComposing) return;
    if (event.key === 'Escape' && busy && onStop) {
      event.preventDefault();
      event.stopPropagation();
      onStop();
    } else if (event.key === 'Enter' && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      event.stopPropagation();
      void send(event.metaKey || event.ctrlKey);
    }
  }
  function onPaste(event: React.ClipboardEvent): void {
    const pasted = [...event.clipboardData.files];
    if (pasted.length === 0) return;
    event.preventDefault();
    uploads.add(pasted.map((file) => ({ name: file.name || 'pasted.png', file })));
  }
  return (
    <div className={styles.composer}>
      <Chips uploads={uploads} />
      <textarea
        ref={area}
        rows={1}
        aria-label={strings.message}
        placeholder={placeholder}
        value={text}
        maxLength={262_144}
        // biome-ignore lint/a11y/noAutofocus: the page is there to write in this box
        autoFocus={autoFocus}
        onChange={(event) => {
          setText(event.target.value);
          setWaits(false);
        }}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      {waits && uploads.busy && (
        <p className={styles.waits} role="status">
          {strings.waitUploads}
        </p>
      )}
      <div className={styles.bar}>
        <IconButton label={strings.attach} onPress={() => input.current?.click()}>
          <Paperclip />
        </IconButton>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          aria-label={strings.attach}
          onChange={(event) => {
            uploads.add([...(event.target.files ?? [])].map((file) => ({ name: file.name, file })));
            event.target.value = '';
            area.current?.focus();
          }}
        />
        <Choices choice={choice} onChange={onChoice} />
        <span className="grow" />
        {busy && onStop && (
          <Button onPress={onStop} isPending={stopping}>
            <Square className={`lucide ${styles.square}`} />
            <span className={styles.word}>{strings.stopTurn}</span>
            <KeyHint keys="escape" className="only-wide" />
          </Button>
        )}
        {(!busy || !empty) && (
          <Button
            look={busy ? 'plain' : 'primary'}
            className={`icon ${styles.send}`}
            aria-label={strings.send}
            isDisabled={empty || sending}
            onPress={() => send(false)}
          >
            <ArrowUp />
          </Button>
        )}
      </div>
    </div>
  );
}

/** Browsers without `field-sizing` are told the height. */
function useGrowing(area: React.RefObject<HTMLTextAreaElement | null>, text: string): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text is what makes it grow
  useLayoutEffect(() => {
    const element = area.current;
    if (!element || CSS.supports('field-sizing', 'content')) return;
    element.style.height = 'auto';
    element.style.height = `${element.scrollHeight}px`;
  }, [text]);
}
