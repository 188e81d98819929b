// Texts of models in Markdown: elements and never HTML, nothing from elsewhere, and each link says where it leads.
import { memo, useMemo, useState } from 'react';
import styles from './markdown.module.css';
import { Parser, parse, type Top } from './parse';
import { BlockView, type Context, type Files } from './render';
import { strings } from './strings';

export interface MarkdownProps {
  text: string;
  /** While more comes: only what changed is read and drawn again, and code has no colours in the block that grows. */
  streaming?: boolean;
  /** What relative links and images mean; without it they are words. */
  files?: Files;
}

const NO_FILES: Files = {};

export function Markdown({ text, streaming = false, files = NO_FILES }: MarkdownProps) {
  const [parser] = useState(() => new Parser());
  // At the end all of it is read at once: a definition of a link may stand below its use.
  const { blocks, rest, isCut } = useMemo(
    () => (streaming ? parser.grow(text) : parse(text)),
    [parser, text, streaming],
  );
  const done = useMemo<Context>(() => ({ ...files, streaming: false }), [files]);
  const growing = useMemo<Context>(() => ({ ...files, streaming: true }), [files]);
  return (
    <div className={styles.root}>
      {blocks.map((top, i) => (
        <TopBlock key={top.at} top={top} context={streaming && i === blocks.length - 1 ? growing : done} />
      ))}
      {rest && (
        <>
          <p className="meta">{strings.rest}</p>
          <p className={styles.plain}>{rest}</p>
        </>
      )}
      {isCut && <p className="meta">{strings.cut}</p>}
    </div>
  );
}

/** One memo for each block: while a text grows, the last ones are drawn again. */
const TopBlock = memo(
  ({ top, context }: { top: Top; context: Context }) => <BlockView block={top.block} context={context} />,
  (old, now) =>
    old.context === now.context &&
    (old.top === now.top || JSON.stringify(old.top.block) === JSON.stringify(now.top.block)),
);
TopBlock.displayName = 'TopBlock';
