// A block of code: its language, a button that copies it, and colours once they are there.
import { useEffect, useState } from 'react';
import { CopyButton } from '../../ui';
import type { Piece } from './highlight';
import styles from './markdown.module.css';
import { strings } from './strings';

/** Longer ones stay plain, and are folded by their height. */
const LONGEST = 50_000;

export interface CodeBlockProps {
  text: string;
  /** As it is written behind the fence. */
  language: string;
  /** Without colours. */
  plain?: boolean;
}

export function CodeBlock({ text, language, plain }: CodeBlockProps) {
  const pieces = usePieces(text, language, plain === true || text.length > LONGEST);
  return (
    <div className={`code ${styles.code}`} dir="ltr">
      <header>
        <span className="cut">{language || strings.code}</span>
        <CopyButton text={text} label={strings.copy} />
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls sideways must be reachable by keyboard */}
      <pre tabIndex={0} role="group" aria-label={strings.codeOf(language)}>
        <code>
          {pieces
            ? pieces.map(([words, kind], i) =>
                kind ? (
                  <span key={i} className={kind}>
                    {words}
                  </span>
                ) : (
                  words
                ),
              )
            : text}
        </code>
      </pre>
    </div>
  );
}

/** Null until they are there, and where there are none. */
function usePieces(text: string, language: string, isPlain: boolean): Piece[] | null {
  const [made, setMade] = useState<{ text: string; pieces: Piece[] | null } | null>(null);
  useEffect(() => {
    if (isPlain || !language) return;
    let gone = false;
    import('./highlight')
      .then(({ highlight }) => highlight(text, language))
      .then((pieces) => {
        if (!gone) setMade({ text, pieces });
      })
      // Without colours it can be read, too.
      .catch(() => {});
    return () => {
      gone = true;
    };
  }, [text, language, isPlain]);
  return made?.text === text ? made.pieces : null;
}
