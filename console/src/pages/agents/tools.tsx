// Which tools an agent has, and what happens before they run.
import { useQuery } from '@tanstack/react-query';
import { Plus, X } from 'lucide-react';
import { useId } from 'react';
import { type Approve, templatesQuery } from '../../api';
import { plainName } from '../../format/plain';
import { Button, IconButton, NumberField, Select, Switch, TextField } from '../../ui';
import styles from './agents.module.css';
import { type Draft, type Problem, type Rule, rule } from './draft';
import { strings } from './strings';

interface Props {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: ReadonlySet<Problem>;
}

export function Tools({ draft, change, problems }: Props) {
  return (
    <>
      <div>
        <Switch isSelected={draft.sandbox} onChange={(sandbox) => change({ sandbox })}>
          <span>
            {strings.sandbox} <span className="meta">{strings.sandboxText}</span>
          </span>
        </Switch>
        {draft.sandbox && <SandboxTool draft={draft} change={change} problems={problems} />}
      </div>
      <Switch isSelected={draft.services} onChange={(services) => change({ services })}>
        <span>
          {strings.services} <span className="meta">{strings.servicesText}</span>
        </span>
      </Switch>
      <Switch isSelected={draft.ask} onChange={(ask) => change({ ask })}>
        <span>
          {strings.ask} <span className="meta">{strings.askText}</span>
        </span>
      </Switch>
      {draft.functions.length > 0 && <p className="meta">{strings.functionsKept(draft.functions.length)}</p>}
    </>
  );
}

function SandboxTool({ draft, change, problems }: Props) {
  const templates = useQuery(templatesQuery());
  const known = useId();
  const names = (templates.data?.items ?? []).flatMap((one) => one.aliases.slice(0, 1)).slice(0, 200);
  return (
    <div className={styles.sandbox}>
      <div className={styles.three}>
        <div className="field">
          <label htmlFor={`${known}-template`}>{strings.template}</label>
          <input
            id={`${known}-template`}
            className="input mono"
            list={known}
            value={draft.template}
            placeholder="base"
            spellCheck={false}
            autoComplete="off"
            maxLength={200}
            aria-describedby={`${known}-hint`}
            onChange={(event) => change({ template: event.target.value })}
          />
          <datalist id={known}>
            {names.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          <span className="hint" id={`${known}-hint`}>
            {strings.templateHint}
          </span>
        </div>
        <NumberField
          label={strings.cpu}
          value={draft.cpuCount}
          onChange={(cpuCount) => change({ cpuCount })}
          min={1}
          max={64}
          hint={strings.sizeHint}
        />
        <NumberField
          label={strings.memory}
          value={draft.memoryMB}
          onChange={(memoryMB) => change({ memoryMB })}
          min={128}
          max={1_048_576}
          unit="MiB"
          hint={strings.sizeHint}
        />
      </div>
      <TextField
        label={strings.allow}
        value={draft.allow}
        onChange={(allow) => change({ allow })}
        hint={strings.allowHint}
        error={problems.has('allow') ? strings.allowError : null}
        placeholder="sandbox_*"
        mono
        autoComplete="off"
        maxLength={4000}
      />
      <TextField
        label={strings.names}
        value={draft.names}
        onChange={(next) => change({ names: next })}
        hint={strings.namesHint}
        error={problems.has('names') ? strings.namesError : null}
        placeholder="main"
        mono
        autoComplete="off"
        maxLength={600}
      />
      <Rules rules={draft.rules} onChange={(rules) => change({ rules })} isBad={problems.has('rules')} />
    </div>
  );
}

const APPROVE = (Object.keys(strings.approve) as Approve[]).map((id) => ({ id, label: strings.approve[id] }));

function Rules({
  rules,
  onChange,
  isBad,
}: {
  rules: readonly Rule[];
  onChange: (rules: Rule[]) => void;
  isBad: boolean;
}) {
  const id = useId();
  const set = (key: number, part: Partial<Rule>) =>
    onChange(rules.map((one) => (one.id === key ? { ...one, ...part } : one)));
  return (
    <div className={isBad ? 'field bad' : 'field'} role="group" aria-labelledby={id}>
      <span className="label" id={id}>
        {strings.rules}
      </span>
      {rules.length > 0 && (
        <ul className={styles.rules}>
          {rules.map((one, i) => (
            <li key={one.id}>
              <input
                className="input mono"
                value={one.pattern}
                placeholder="sandbox_run_command"
                aria-label={strings.rulePattern(i + 1)}
                aria-invalid={isBad || undefined}
                spellCheck={false}
                autoComplete="off"
                maxLength={128}
                onChange={(event) => set(one.id, { pattern: event.target.value })}
              />
              <Select
                label={strings.ruleApprove(i + 1)}
                hideLabel
                value={one.approve}
                onChange={(approve) => set(one.id, { approve })}
                options={APPROVE}
              />
              <IconButton
                label={strings.ruleRemove(plainName(one.pattern, 40) || `${i + 1}`)}
                onPress={() => onChange(rules.filter((other) => other.id !== one.id))}
              >
                <X />
              </IconButton>
            </li>
          ))}
        </ul>
      )}
      <span>
        <Button size="sm" onPress={() => onChange([...rules, rule(rules.length === 0 ? 'sandbox_run_command' : '')])}>
          <Plus />
          {strings.ruleAdd}
        </Button>
      </span>
      {isBad ? <span className="error">{strings.rulesError}</span> : <span className="hint">{strings.rulesHint}</span>}
    </div>
  );
}
