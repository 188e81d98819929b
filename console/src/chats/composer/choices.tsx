// Sandbox, agent and model of the next message.
import { useQuery } from '@tanstack/react-query';
import { agentsQuery, modelsQuery } from '../../api';
import { plainName } from '../../format/plain';
import { type Option, Select, Switch } from '../../ui';
import { strings } from '../strings';
import styles from './composer.module.css';

export interface Choice {
  /** Empty: the agent's, or the server's default. */
  model: string;
  /** Empty: none. */
  agentId: string;
  sandbox: boolean;
}

export interface ChoicesProps {
  choice: Choice;
  onChange: (choice: Choice) => void;
}

export function Choices({ choice, onChange }: ChoicesProps) {
  const models = useQuery(modelsQuery()).data?.models ?? [];
  const agents = useQuery(agentsQuery()).data?.agents ?? [];
  const usual = models.find((model) => model.default)?.id ?? models[0]?.id ?? '';
  const model = choice.model || agents.find((agent) => agent.id === choice.agentId)?.model || usual;
  const options: Option[] = models.map(({ id, demo }) => ({
    id,
    label: id,
    note: demo ? strings.demoNote : undefined,
  }));
  if (model && !options.some((option) => option.id === model)) options.unshift({ id: model, label: model });
  const named: Option[] = agents.map((agent) => ({ id: agent.id, label: plainName(agent.name, 60) }));
  return (
    <>
      <Switch isSelected={choice.sandbox} onChange={(sandbox) => onChange({ ...choice, sandbox })}>
        {strings.sandbox}
      </Switch>
      {(named.length > 0 || choice.agentId) && (
        <Select
          className={styles.select}
          label={strings.agent}
          hideLabel
          value={choice.agentId || 'none'}
          onChange={(id) => onChange({ ...choice, agentId: id === 'none' ? '' : id })}
          options={[{ id: 'none', label: strings.noAgent }, ...named]}
        />
      )}
      {options.length > 0 && (
        <Select
          className={styles.select}
          label={strings.model}
          hideLabel
          value={model}
          onChange={(id) => onChange({ ...choice, model: id })}
          options={options}
        />
      )}
    </>
  );
}

/** Whether a model is the scripted one. */
export function useIsDemo(model: string | undefined): boolean {
  const { data } = useQuery(modelsQuery());
  const chosen = data?.models.find((one) => (model ? one.id === model : one.default));
  return chosen?.demo ?? model === 'demo/demo';
}
