// The second step: a template, or an image of which one is made first.
import type { UseQueryResult } from '@tanstack/react-query';
import { Check, TriangleAlert } from 'lucide-react';
import { type RefObject, useMemo, useState } from 'react';
import type { Page, Template } from '../../api';
import { plainName } from '../../format/plain';
import { mib } from '../../format/size';
import { Button, FilterSearch, QueryView, Segmented, SkeletonLines, TextField, Time } from '../../ui';
import type { Problems } from './checks';
import styles from './create.module.css';
import type { Draft } from './draft';
import { templateNameOf } from './image-name';
import { strings } from './strings';

const words = strings.image;

export const aliasOf = (template: Template): string => template.aliases[0] ?? template.templateID;

/** Whether a text names this template. */
export const isNamed = (template: Template, text: string): boolean =>
  template.templateID === text || template.aliases.includes(text) || template.names.includes(text);

/** Two or three letters in place of a picture. */
function glyph(name: string): string {
  const letters = name
    .replace(/[^a-z0-9]+/gi, ' ')
    .trim()
    .split(' ');
  const text = letters.length > 1 ? letters.map((word) => word[0]).join('') : (letters[0] ?? '');
  return text.slice(0, 3).toLowerCase() || '…';
}

interface PickProps {
  name: string;
  text: string;
  meta?: React.ReactNode;
  isOn: boolean;
  isDisabled?: boolean;
  onPick: () => void;
}

function Pick({ name, text, meta, isOn, isDisabled, onPick }: PickProps) {
  const shown = plainName(name, 80);
  return (
    <label className={`card ${styles.pick} ${isOn ? 'on' : ''}`} data-disabled={isDisabled || undefined}>
      <input type="radio" name="template" className="sr" checked={isOn} disabled={isDisabled} onChange={onPick} />
      <span className={styles.glyph} aria-hidden="true">
        {glyph(shown)}
      </span>
      <span className="grow">
        <span className="row">
          <b className="mono cut grow" title={shown}>
            {shown}
          </b>
          {isOn && <Check className={`lucide ${styles.tick}`} />}
        </span>
        <span className={`muted ${styles.about}`}>{text}</span>
        {meta && <span className={`meta num ${styles.about}`}>{meta}</span>}
      </span>
    </label>
  );
}

const sizes = (template: Template) =>
  `${template.cpuCount} vCPU · ${mib(template.memoryMB)} · ${mib(template.diskSizeMB)} disk`;

function metaOf(template: Template): React.ReactNode {
  if (template.buildStatus === 'error') return <span className={styles.bad}>{words.failed}</span>;
  if (template.buildStatus !== 'ready') return words.building;
  return (
    <>
      {words.used(template.spawnCount)} · <Time at={template.updatedAt} />
    </>
  );
}

export interface ImageProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: Problems;
  templates: UseQueryResult<Page<Template>>;
  password: RefObject<HTMLInputElement | null>;
}

export function ImageStep({ draft, change, problems, templates, password }: ImageProps) {
  const [q, setQ] = useState('');
  const isLong = (templates.data?.items.length ?? 0) > 4;
  return (
    <div className="stack">
      <div className="row wrap">
        <Segmented
          label={words.kinds}
          value={draft.source}
          onChange={(source) => change({ source })}
          options={[
            { id: 'template', label: words.template },
            { id: 'image', label: words.image },
          ]}
        />
        <span className="grow" />
        {draft.source === 'template' && isLong && (
          <FilterSearch label={words.search} placeholder={words.searchHint} value={q} onChange={setQ} />
        )}
      </div>
      {draft.source === 'template' ? (
        <QueryView query={templates} skeleton={<SkeletonLines lines={5} />}>
          {(page) => <Templates q={q} list={page.items} draft={draft} change={change} problem={problems.template} />}
        </QueryView>
      ) : (
        <Registry draft={draft} change={change} problem={problems.image} password={password} />
      )}
    </div>
  );
}

interface TemplatesProps {
  q: string;
  list: readonly Template[];
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problem?: string;
}

const MOST_CARDS = 60;

function Templates({ q, list, draft, change, problem }: TemplatesProps) {
  const found = useMemo(() => {
    const text = q.toLowerCase();
    const hits = list.filter((template) =>
      [template.templateID, ...template.aliases, ...template.names].some((name) => name.toLowerCase().includes(text)),
    );
    return hits.sort((a, b) => Date.parse(b.updatedAt) - Date.parse(a.updatedAt));
  }, [list, q]);
  const groups: [string, Template[]][] = [
    [words.mine, found.filter((template) => !template.public)],
    [words.public, found.filter((template) => template.public)],
  ];
  const isKnown = list.some((template) => isNamed(template, draft.template));
  const pick = (template: string) => change({ template, cpu: null, memory: null, disk: null });
  return (
    <div className="stack">
      {problem && (
        <span className={styles.problem} role="alert">
          <TriangleAlert />
          {problem}
        </span>
      )}
      {list.length === 0 && <p className="muted">{words.none}</p>}
      <div role="radiogroup" aria-label={words.group} className="stack">
        {draft.template && !isKnown && (
          <div className={styles.group}>
            <span className="label">{words.chosen}</span>
            <div className={styles.cards}>
              <Pick name={draft.template} text={words.chosenText} isOn onPick={() => {}} />
            </div>
          </div>
        )}
        {groups.map(
          ([label, templates]) =>
            templates.length > 0 && (
              <div className={styles.group} key={label}>
                <span className="label">{label}</span>
                <div className={styles.cards}>
                  {templates.slice(0, MOST_CARDS).map((template) => (
                    <Pick
                      key={template.templateID}
                      name={aliasOf(template)}
                      text={sizes(template)}
                      meta={metaOf(template)}
                      isOn={isNamed(template, draft.template)}
                      isDisabled={template.buildStatus === 'error'}
                      onPick={() => pick(aliasOf(template))}
                    />
                  ))}
                </div>
              </div>
            ),
        )}
      </div>
      {q && found.length === 0 && (
        <div className="row wrap">
          <span className="muted">{words.noMatch(plainName(q, 60))}</span>
          <Button size="sm" onPress={() => pick(q)}>
            {words.asItIs(plainName(q, 40))}
          </Button>
        </div>
      )}
    </div>
  );
}

interface RegistryProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problem?: string;
  password: RefObject<HTMLInputElement | null>;
}

function Registry({ draft, change, problem, password }: RegistryProps) {
  const image = draft.image.trim();
  return (
    <div className={`card ${styles.form}`}>
      <TextField
        label={words.field}
        value={draft.image}
        onChange={(next) => change({ image: next })}
        hint={image ? words.becomes(templateNameOf(image)) : words.fieldHint}
        error={problem}
        placeholder="python:3.13-slim"
        mono
        autoComplete="off"
      />
      <fieldset className={styles.fieldset}>
        <legend className="label">{words.private}</legend>
        <div className={styles.two}>
          <TextField
            label={words.user}
            value={draft.user}
            onChange={(user) => change({ user })}
            autoComplete="off"
            name="registry-user"
          />
          <div className="field">
            <label htmlFor="registry-password">{words.password}</label>
            {/* Not in any state: it is read once, when the build is started. */}
            <input
              id="registry-password"
              ref={password}
              type="password"
              className="input"
              autoComplete="new-password"
              aria-describedby="registry-password-hint"
            />
          </div>
        </div>
        <span className="meta" id="registry-password-hint">
          {words.passwordHint}
        </span>
      </fieldset>
    </div>
  );
}
