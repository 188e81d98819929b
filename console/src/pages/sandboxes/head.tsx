// The page's head: how many are in which state, how new that is, and Create.
import { Plus } from 'lucide-react';
import { count } from '../../format/size';
import { ButtonLink, KeyHint, PageHead, SnippetMenu, StateDot, Updated } from '../../ui';
import type { Counts } from './filter';
import styles from './sandboxes.module.css';
import { strings } from './strings';

const SHAPES = { running: 'running', asleep: 'paused', failed: 'failed', ended: 'stopped' } as const;

export interface HeadProps {
  counts: Counts | null;
  /** There are more than were counted. */
  isMore: boolean;
  updatedAt: number;
  isLive: boolean;
  api: string;
  cli: string;
}

export function Head({ counts, isMore, updatedAt, isLive, api, cli }: HeadProps) {
  const kinds = (Object.keys(SHAPES) as (keyof Counts)[]).filter(
    (kind) => counts && (counts[kind] > 0 || (kind === 'running' && counts.ended === 0)),
  );
  return (
    <PageHead
      title={strings.title}
      actions={
        <>
          {updatedAt > 0 && (
            <span className="row only-wide">
              {isLive && <span className={styles.live}>{strings.live}</span>}
              <Updated at={updatedAt} />
            </span>
          )}
          <SnippetMenu api={api} cli={cli} />
          <ButtonLink href="/create" look="primary">
            <Plus />
            {strings.create}
            <KeyHint keys="c" className="only-wide" />
          </ButtonLink>
        </>
      }
    >
      <span className={`row meta only-wide ${styles.counts}`}>
        {kinds.map((kind) => (
          <span key={kind} className="state" data-state={SHAPES[kind]}>
            <StateDot state={SHAPES[kind]} />
            <span className="num">{`${count(counts?.[kind] ?? 0)}${isMore ? '+' : ''} ${strings.counts[kind]}`}</span>
          </span>
        ))}
      </span>
    </PageHead>
  );
}
