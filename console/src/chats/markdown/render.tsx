// The tree as React elements. Text is text: nothing here makes markup of it.
import { ImageOff } from 'lucide-react';
import type { ReactNode } from 'react';
import { CodeBlock } from './code-block';
import styles from './markdown.module.css';
import { strings } from './strings';
import type { Block, Inline } from './tree';

export interface Files {
  /** Opens a file that a relative link names. */
  open?: (path: string) => void;
  /** An image from the same place as the text. */
  image?: (path: string, alt: string) => ReactNode;
}

export interface Context extends Files {
  /** Whether more may come: code is not coloured before its end. */
  streaming: boolean;
}

const blocks = (children: readonly Block[], context: Context): ReactNode =>
  children.map((child, i) => <BlockView key={i} block={child} context={context} />);

export function BlockView({ block, context }: { block: Block; context: Context }): ReactNode {
  switch (block.t) {
    case 'heading': {
      // The page has its own h1 and h2.
      const Tag = `h${Math.min(6, block.level + 2)}` as 'h3';
      return (
        <Tag dir="auto" data-level={block.level}>
          {inlines(block.children, context)}
        </Tag>
      );
    }
    case 'paragraph':
      return <p dir="auto">{inlines(block.children, context)}</p>;
    case 'line':
      return <span dir="auto">{inlines(block.children, context)}</span>;
    case 'code':
      return <CodeBlock text={block.text} language={block.language} plain={context.streaming} />;
    case 'quote':
      return <blockquote dir="auto">{blocks(block.children, context)}</blockquote>;
    case 'list':
      return <List list={block} context={context} />;
    case 'table':
      return <Table table={block} context={context} />;
    case 'rule':
      return <hr />;
    case 'html':
      return <pre className={styles.raw}>{block.text}</pre>;
    case 'plain':
      return <p className={styles.plain}>{block.text}</p>;
  }
}

function List({ list, context }: { list: Extract<Block, { t: 'list' }>; context: Context }) {
  const items = list.items.map((item, i) => (
    <li key={i} data-task={item.done === null ? undefined : ''} dir="auto">
      {item.done !== null && (
        <input
          type="checkbox"
          className="check"
          checked={item.done}
          readOnly
          disabled
          aria-label={strings.task(item.done)}
        />
      )}
      {blocks(item.children, context)}
    </li>
  ));
  return (
    <>
      {list.start === null ? <ul>{items}</ul> : <ol start={list.start}>{items}</ol>}
      {list.left > 0 && <p className="meta">{strings.left(list.left)}</p>}
    </>
  );
}

function Table({ table, context }: { table: Extract<Block, { t: 'table' }>; context: Context }) {
  const align = (i: number) => ({ textAlign: table.align[i] ?? undefined });
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls sideways must be reachable by keyboard */}
      <div className={styles.table} tabIndex={0} role="group" aria-label={strings.table}>
        <table>
          <thead>
            <tr>
              {table.head.map((cell, i) => (
                <th key={i} style={align(i)} dir="auto">
                  {inlines(cell, context)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row, i) => (
              <tr key={i}>
                {row.map((cell, j) => (
                  <td key={j} style={align(j)} dir="auto">
                    {inlines(cell, context)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {table.left > 0 && <p className="meta">{strings.left(table.left)}</p>}
    </>
  );
}

const inlines = (children: readonly Inline[], context: Context): ReactNode =>
  children.map((child, i) => (child.t === 'text' ? child.text : <InlineView key={i} part={child} context={context} />));

function InlineView({ part, context }: { part: Inline; context: Context }): ReactNode {
  switch (part.t) {
    case 'text':
      return part.text;
    case 'html':
      return <span className={styles.tag}>{part.text}</span>;
    case 'code':
      return <code dir="ltr">{part.text}</code>;
    case 'strong':
      return <strong>{inlines(part.children, context)}</strong>;
    case 'em':
      return <em>{inlines(part.children, context)}</em>;
    case 'del':
      return <del>{inlines(part.children, context)}</del>;
    case 'br':
      return <br />;
    case 'link':
      return (
        <Outside href={part.href} shown={part.shown}>
          {inlines(part.children, context)}
        </Outside>
      );
    case 'address':
      return <Address part={part} context={context} />;
    case 'image':
      return <Image part={part} context={context} />;
  }
}

function Outside({ href, shown, children }: { href: string; shown: string | null; children: ReactNode }) {
  return (
    <>
      <a
        href={href}
        target="_blank"
        rel="noopener noreferrer nofollow"
        title={`${href.slice(0, 300)}, ${strings.opens}`}
      >
        <bdi>{children}</bdi>
      </a>
      {shown !== null && (
        <>
          {' '}
          <bdi className={styles.host} dir="ltr">
            ({shown})
          </bdi>
        </>
      )}
    </>
  );
}

function Address({ part, context }: { part: Extract<Inline, { t: 'address' }>; context: Context }) {
  const { open } = context;
  const { path } = part;
  if (open && path !== null) {
    return (
      <button type="button" className={styles.linkButton} onClick={() => open(path)}>
        <bdi>{inlines(part.children, context)}</bdi>
      </button>
    );
  }
  const only = part.children.length === 1 ? part.children[0] : undefined;
  const isSame = only && 'text' in only && only.text === part.address;
  return (
    <>
      <bdi>{inlines(part.children, context)}</bdi>
      {!isSame && part.address && (
        <>
          {' '}
          <bdi className={styles.host} dir="ltr">
            ({part.address})
          </bdi>
        </>
      )}
    </>
  );
}

function Image({ part, context }: { part: Extract<Inline, { t: 'image' }>; context: Context }) {
  if (context.image && part.path !== null) return context.image(part.path, part.alt);
  const words = (
    <>
      <ImageOff className="lucide s" aria-hidden="true" /> <bdi>{strings.image(part.alt)}</bdi>
    </>
  );
  return (
    <span className={styles.image}>
      {part.href ? (
        <Outside href={part.href} shown={part.shown}>
          {words}
        </Outside>
      ) : (
        <>
          {words} <bdi dir="ltr">({part.shown})</bdi>
        </>
      )}
    </span>
  );
}
