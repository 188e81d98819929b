// Who may see a service.
import { Globe, Link2, Lock } from 'lucide-react';
import type { Access } from '../../../api';
import { ACCESS_WORDS } from '../../../format/service';
import { Segmented } from '../../../ui';
import { strings } from './strings';

const ICONS = { private: Lock, link: Link2, public: Globe };
const ALL: readonly Access[] = ['private', 'link', 'public'];

export function AccessBadge({ access }: { access: Access }) {
  const Icon = ICONS[access] ?? Lock;
  return (
    <span className={access === 'public' ? 'badge sand' : 'badge line'} title={strings.access[access]}>
      <Icon className="lucide s" />
      {ACCESS_WORDS[access] ?? access}
    </span>
  );
}

export function AccessField({ value, onChange }: { value: Access; onChange: (value: Access) => void }) {
  return (
    <div className="field">
      <span className="label">{strings.form.access}</span>
      <div>
        <Segmented
          label={strings.form.access}
          value={value}
          onChange={onChange}
          options={ALL.map((id) => ({ id, label: ACCESS_WORDS[id] }))}
        />
      </div>
      <span className="hint">{strings.access[value]}</span>
    </div>
  );
}
