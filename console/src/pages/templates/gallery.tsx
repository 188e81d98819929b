// Templates to begin with: what this server offers, and Dockerfiles of ours that build with one press.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { FileText } from 'lucide-react';
import { useState } from 'react';
import { useLocation } from 'wouter';
import { type CuratedTemplate, curatedQuery, type Template } from '../../api';
import { mib } from '../../format/size';
import { Button, ButtonLink, CodeBlock, Dialog, IconButton, Link, NoMatch, QueryView, StateDot, toast } from '../../ui';
import { beginBuild, buildPath } from './build';
import { CuratedCard } from './curated';
import { Glyph, glyphOf } from './glyph';
import { createHref, nameOf } from './mine';
import { NewTemplate } from './new-template';
import { CATEGORIES, type Category, RECIPES, type Recipe } from './recipes';
import { buildWords, isOpen } from './state';
import { strings } from './strings';
import styles from './templates.module.css';

interface Props {
  templates: readonly Template[];
  /** In small letters. */
  q: string;
  category: Category | '';
  onClear: () => void;
}

interface Seen {
  name: string;
  text: string;
  dockerfile: string;
  /** It can be changed before it is built. */
  recipe?: Recipe;
}

export function Gallery(props: Props) {
  const query = useQuery(curatedQuery());
  return <QueryView query={query}>{(curated) => <Shown {...props} curated={curated} />}</QueryView>;
}

function Shown({ templates, q, category, onClear, curated }: Props & { curated: readonly CuratedTemplate[] }) {
  const [seen, setSeen] = useState<Seen | null>(null);
  const [edited, setEdited] = useState<Recipe | null>(null);
  const known = new Set(curated.map((one) => one.templateID));
  const offered = templates.filter(
    (one) => one.public && !known.has(one.templateID) && matches(q, nameOf(one), textOf(one)),
  );
  const cards = curated.filter((one) => matches(q, one.name, one.title, one.description, one.dockerfile));
  const recipes = RECIPES.filter(
    (recipe) => (!category || recipe.category === category) && matches(q, recipe.name, recipe.text, recipe.dockerfile),
  );
  const sections = CATEGORIES.filter((id) => !category || id === category).map((id) => ({
    id,
    cards: cards.filter((one) => one.category.toLowerCase() === id),
    recipes: recipes.filter((recipe) => recipe.category === id),
  }));
  const server = category ? [] : offered;
  if (server.length === 0 && sections.every((one) => one.cards.length + one.recipes.length === 0))
    return <NoMatch onClear={onClear} />;
  return (
    <>
      {server.length > 0 && (
        <Section title={strings.categories.server} count={server.length}>
          {server.map((one) => (
            <Offered key={one.templateID} template={one} />
          ))}
        </Section>
      )}
      {sections
        .filter((one) => one.cards.length + one.recipes.length > 0)
        .map(({ id, cards, recipes }) => (
          <Section key={id} title={strings.categories[id]} count={cards.length + recipes.length}>
            {cards.map((one) => (
              <CuratedCard
                key={one.name}
                curated={one}
                onSee={() => setSeen({ name: one.name, text: one.description, dockerfile: one.dockerfile })}
              />
            ))}
            {recipes.map((recipe) => (
              <RecipeCard
                key={recipe.name}
                recipe={recipe}
                built={templates.find((one) => one.aliases.includes(recipe.name))}
                onSee={() => setSeen({ ...recipe, recipe })}
              />
            ))}
          </Section>
        ))}
      {seen && (
        <Dialog
          isOpen
          size="lg"
          onClose={() => setSeen(null)}
          title={strings.dockerfileOf(seen.name)}
          actions={
            <>
              <Button onPress={() => setSeen(null)}>{strings.close}</Button>
              {seen.recipe && (
                <Button
                  onPress={() => {
                    setEdited(seen.recipe ?? null);
                    setSeen(null);
                  }}
                >
                  {strings.editFirst}
                </Button>
              )}
            </>
          }
        >
          <p>{seen.text}</p>
          <CodeBlock text={seen.dockerfile} />
        </Dialog>
      )}
      {edited && (
        <NewTemplate
          kind="dockerfile"
          templates={templates}
          initial={{ name: edited.name, dockerfile: edited.dockerfile, memoryMB: edited.memoryMB }}
          onClose={() => setEdited(null)}
        />
      )}
    </>
  );
}

const matches = (q: string, ...texts: string[]) => texts.some((text) => text.toLowerCase().includes(q));
const textOf = (template: Template) => (template.aliases.includes('base') ? strings.base : strings.publicText);

function Section({ title, count, children }: { title: string; count: number; children: React.ReactNode }) {
  return (
    <section className={`stack ${styles.section}`} aria-label={title}>
      <div className="row">
        <h2>{title}</h2>
        <span className="n">{count}</span>
      </div>
      <div className={styles.grid}>{children}</div>
    </section>
  );
}

function Offered({ template }: { template: Template }) {
  const name = nameOf(template);
  return (
    <article className={`card ${styles.card}`}>
      <Glyph text={glyphOf(name)} />
      <div className={styles.inside}>
        <Link href={`/templates/${template.templateID}`} className={`${styles.name} cut`}>
          {name}
        </Link>
        <p className={styles.text}>{textOf(template)}</p>
        <div className={`row meta num ${styles.foot}`}>
          <span className="cut">
            {strings.sizeOf(template.cpuCount, mib(template.memoryMB), mib(template.diskSizeMB))}
          </span>
          <span className="grow" />
          <ButtonLink size="sm" href={createHref(template)}>
            {strings.use}
          </ButtonLink>
        </div>
      </div>
    </article>
  );
}

function RecipeCard({ recipe, built, onSee }: { recipe: Recipe; built?: Template; onSee: () => void }) {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  async function build(): Promise<void> {
    setBusy(true);
    try {
      const order = { name: recipe.name, memoryMB: recipe.memoryMB };
      const begun = await beginBuild(order, { dockerfile: recipe.dockerfile }, !built);
      void client.invalidateQueries({ queryKey: ['templates'] });
      navigate(buildPath(begun));
    } catch (error) {
      toast.failed(strings.buildFailed(recipe.name), error);
      setBusy(false);
    }
  }
  return (
    <article className={`card ${styles.card}`}>
      <Glyph text={recipe.glyph} />
      <div className={styles.inside}>
        {built ? (
          <Link href={`/templates/${built.templateID}`} className={`${styles.name} cut`}>
            {recipe.name}
          </Link>
        ) : (
          <span className={`${styles.name} cut`}>{recipe.name}</span>
        )}
        <p className={styles.text}>{recipe.text}</p>
        <div className={`row meta ${styles.foot}`}>
          {built && (
            <span className="row">
              <StateDot state={buildWords(built.buildStatus).state} />
              {buildWords(built.buildStatus).word}
            </span>
          )}
          <span className="grow" />
          <IconButton size="sm" label={strings.dockerfileOf(recipe.name)} onPress={onSee}>
            <FileText />
          </IconButton>
          {built?.buildStatus === 'ready' ? (
            <ButtonLink size="sm" href={createHref(built)}>
              {strings.use}
            </ButtonLink>
          ) : built && isOpen(built.buildStatus) ? (
            <ButtonLink size="sm" href={buildPath(built)}>
              {strings.seeLog}
            </ButtonLink>
          ) : (
            <Button size="sm" onPress={build} isPending={busy} aria-label={strings.buildOf(recipe.name)}>
              {built ? strings.buildAgain : strings.build}
            </Button>
          )}
        </div>
      </div>
    </article>
  );
}
