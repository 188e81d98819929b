// The models that can be chosen, and the providers that they come from.
import { KeyRound, MoreHorizontal, Pencil, Trash2 } from 'lucide-react';
import type { Model, ModelProvider } from '../../api';
import { plainName } from '../../format/plain';
import { plural } from '../../format/size';
import { IconButton, Menu, Table } from '../../ui';
import styles from './models.module.css';
import { strings } from './strings';

export function ModelList({ models }: { models: readonly Model[] }) {
  const columns = strings.modelColumns;
  if (models.length === 0) return <p className="muted">{strings.noModels}</p>;
  return (
    <>
      <Table
        label={strings.models}
        columns={[
          { label: columns.model },
          { label: columns.window, right: true, wide: true },
          { label: columns.price, right: true },
        ]}
      >
        {models.map((model) => (
          <tr key={model.id}>
            <td>
              <span className={styles.model}>
                <span className="mono cut">{plainName(model.id, 120)}</span>
                {model.default && <span className="badge accent">{strings.isDefault}</span>}
                {model.demo && <span className="badge sand">{strings.demo}</span>}
              </span>
            </td>
            <td className="only-wide right num muted">{strings.window(model.contextWindow)}</td>
            <td className="right muted">
              {model.demo ? strings.free : model.priced ? strings.priced : strings.unpriced}
            </td>
          </tr>
        ))}
      </Table>
      {models.some((model) => !model.priced && !model.demo) && <p className="meta">{strings.unpricedNote}</p>}
    </>
  );
}

export interface ProviderListProps {
  providers: readonly ModelProvider[];
  onChange: (provider: ModelProvider) => void;
  onDelete: (provider: ModelProvider) => void;
}

export function ProviderList({ providers, onChange, onDelete }: ProviderListProps) {
  const columns = strings.providerColumns;
  return (
    <>
      <Table
        label={strings.providers}
        columns={[
          { label: columns.name },
          { label: columns.kind, wide: true },
          { label: columns.address, wide: true },
          { label: columns.models, right: true, wide: true },
          { label: columns.from },
          { label: columns.actions, hideLabel: true },
        ]}
      >
        {providers.map((provider) => (
          <ProviderRow
            key={`${provider.scope} ${provider.name}`}
            provider={provider}
            onChange={() => onChange(provider)}
            onDelete={() => onDelete(provider)}
          />
        ))}
      </Table>
      {providers.some((provider) => provider.scope !== 'team') && <p className="meta">{strings.readOnly}</p>}
    </>
  );
}

function ProviderRow({
  provider,
  onChange,
  onDelete,
}: {
  provider: ModelProvider;
  onChange: () => void;
  onDelete: () => void;
}) {
  const name = plainName(provider.name, 40);
  const { models } = provider;
  return (
    <tr>
      <td>
        <span className="name mono">{name}</span>
        {!provider.hasKey && provider.kind !== 'demo' && (
          <span className={`meta ${styles.noKey}`}>{strings.noKey}</span>
        )}
      </td>
      <td className="only-wide muted">{strings.kinds[provider.kind] ?? plainName(provider.kind, 20)}</td>
      <td className={`only-wide muted cut ${styles.address}`}>
        {provider.baseUrl ? <span className="mono">{plainName(provider.baseUrl, 200)}</span> : strings.ownAddress}
      </td>
      <td className="only-wide right muted num" title={models.slice(0, 20).join(', ') || undefined}>
        {models.length > 0 ? plural(models.length, 'model') : strings.anyModel}
      </td>
      <td className="muted">{strings.scope[provider.scope] ?? plainName(provider.scope, 20)}</td>
      <td className="right">
        {provider.scope === 'team' && (
          <Menu
            label={strings.actionsOf(name)}
            trigger={
              <IconButton label={strings.actionsOf(name)} size="sm">
                <MoreHorizontal />
              </IconButton>
            }
            items={[
              { label: strings.replaceKey, icon: <KeyRound />, onAction: onChange },
              { label: strings.change, icon: <Pencil />, onAction: onChange },
              'separator',
              { label: strings.delete, icon: <Trash2 />, danger: true, onAction: onDelete },
            ]}
          />
        )}
      </td>
    </tr>
  );
}
