// A text in Markdown of a sandbox: its links and images are files of the same sandbox.
import { type ReactNode, useMemo } from 'react';
import { Markdown as Text } from '../../../chats/markdown';
import styles from './preview.module.css';

export interface MarkdownProps {
  text: string;
  /** Opens a file that a relative link names. */
  onOpen: (path: string) => void;
  /** An image of the same sandbox. */
  image: (path: string, alt: string) => ReactNode;
}

export function Markdown({ text, onOpen, image }: MarkdownProps) {
  const files = useMemo(() => ({ open: onOpen, image }), [onOpen, image]);
  return (
    <article className={styles.markdown}>
      <Text text={text} files={files} />
    </article>
  );
}
