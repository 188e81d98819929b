// Curated templates: those that the server can build, with what there is of them.
import { useQueryClient } from '@tanstack/react-query';
import { FileText } from 'lucide-react';
import { useState } from 'react';
import { buildCurated, type CuratedTemplate } from '../../api';
import { mib } from '../../format/size';
import { Button, ButtonLink, IconButton, Link, StateDot, toast } from '../../ui';
import { buildPath } from './build';
import { Glyph, glyphOf } from './glyph';
import { buildWords } from './state';
import { strings } from './strings';
import styles from './templates.module.css';

/** The state of a build that stands for the state of a curated template; none where there is nothing to say. */
const STATUS: Record<string, string> = { building: 'building', failed: 'error', ready: 'ready', outdated: 'ready' };

export function CuratedCard({ curated, onSee }: { curated: CuratedTemplate; onSee: () => void }) {
  const { name, state, templateID } = curated;
  const words = STATUS[state] && buildWords(STATUS[state]);
  return (
    <article className={`card ${styles.card}`}>
      <Glyph text={glyphOf(name)} />
      <div className={styles.inside}>
        {templateID ? (
          <Link href={`/templates/${templateID}`} className={`${styles.name} cut`}>
            {name}
          </Link>
        ) : (
          <span className={`${styles.name} cut`}>{name}</span>
        )}
        <p className={styles.text}>{curated.description}</p>
        <p className={`meta ${styles.text}`}>{strings.licence(curated.licence)}</p>
        <div className={`row meta num ${styles.foot}`}>
          <span className="cut">
            {words && <StateDot state={words.state} />} {strings.about(words ? words.word : '', mib(curated.sizeMB))}
          </span>
          <span className="grow" />
          <IconButton size="sm" label={strings.dockerfileOf(name)} onPress={onSee}>
            <FileText />
          </IconButton>
          <Act curated={curated} />
        </div>
      </div>
    </article>
  );
}

/** What can be done: use it, build it, or look at its build. */
function Act({ curated }: { curated: CuratedTemplate }) {
  const { name, state, templateID, buildID } = curated;
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  async function build(): Promise<void> {
    setBusy(true);
    try {
      await buildCurated(name);
      await client.invalidateQueries({ queryKey: ['templates'] });
    } catch (error) {
      toast.failed(strings.buildFailed(name), error);
    }
    setBusy(false);
  }
  if (state === 'taken') return <span className="muted">{strings.nameTaken}</span>;
  if (state === 'building' && templateID && buildID) {
    return (
      <ButtonLink size="sm" href={buildPath({ templateID, buildID })}>
        {strings.seeLog}
      </ButtonLink>
    );
  }
  return (
    <>
      {state !== 'ready' && (
        <Button size="sm" onPress={build} isPending={busy} aria-label={strings.buildOf(name)}>
          {state === 'outdated' ? strings.update : state === 'failed' ? strings.buildAgain : strings.build}
        </Button>
      )}
      {(state === 'ready' || state === 'outdated') && (
        <ButtonLink
          size="sm"
          href={`/create?template=${encodeURIComponent(name)}`}
          aria-label={strings.nameOfUse(name)}
        >
          {strings.use}
        </ButtonLink>
      )}
    </>
  );
}
