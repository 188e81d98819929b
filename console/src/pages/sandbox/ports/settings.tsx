// What can be changed of a service while it runs.
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { type Service, updateService } from '../../../api';
import { plainName } from '../../../format/plain';
import { curl } from '../../../format/snippet';
import { applyService } from '../../../live/services';
import { Segmented, Switch, TextField, toast } from '../../../ui';
import { FormDialog } from '../dialogs/form';
import { AccessField } from './access';
import { changes, isSlugWrong, type Settings, settingsOf } from './draft';
import { usePublishQuestion } from './public';
import styles from './services.module.css';
import { strings } from './strings';

const words = strings.set;

export function SettingsDialog({ service, onClose }: { service: Service; onClose: () => void }) {
  const client = useQueryClient();
  const [wanted, setWanted] = useState<Settings>(() => settingsOf(service));
  const change = (part: Partial<Settings>) => setWanted((old) => ({ ...old, ...part }));
  const name = plainName(service.name, 40);
  const update = changes(service, wanted);
  const wrong = isSlugWrong(wanted);
  const isPublic = wanted.access === 'public';
  const question = usePublishQuestion(name);
  async function act(): Promise<boolean> {
    if (update.access === 'public' && !(await question.ask())) return false;
    const next = await updateService(service.id, update);
    applyService(client, { topic: '', type: 'service', service: next });
    toast.done(strings.done.settings(name));
    return true;
  }
  return (
    <>
      <FormDialog
        isOpen
        onClose={onClose}
        title={words.title(name)}
        action={words.act}
        isDisabled={wrong || Object.keys(update).length === 0}
        onAct={act}
        snippets={[{ label: 'API', text: curl('PATCH', `/services/${service.id}`, update) }]}
      >
        <AccessField value={wanted.access} onChange={(access) => change({ access })} />
        <TextField
          label={words.slug}
          value={isPublic ? wanted.slug : ''}
          onChange={(slug) => change({ slug })}
          hint={isPublic ? words.slugHint : words.slugPrivate}
          error={wrong ? words.slugBad : null}
          isDisabled={!isPublic}
          mono
          maxLength={40}
          autoComplete="off"
        />
        <Toggle label={words.alwaysOn} text={words.alwaysOnText}>
          <Switch isSelected={wanted.alwaysOn} onChange={(alwaysOn) => change({ alwaysOn })}>
            {words.alwaysOn}
          </Switch>
        </Toggle>
        <Toggle label={words.onWake} text={words.onWakeText}>
          <Switch
            isSelected={wanted.onWake === 'restart'}
            onChange={(on) => change({ onWake: on ? 'restart' : 'leave' })}
          >
            {words.onWake}
          </Switch>
        </Toggle>
        <Toggle label={words.bridge} text={words.bridgeText}>
          <Switch isSelected={wanted.bridge} onChange={(bridge) => change({ bridge })}>
            {words.bridge}
          </Switch>
        </Toggle>
        <div className="field">
          <span className="label">{words.host}</span>
          <div>
            <Segmented
              label={words.host}
              value={wanted.hostMode}
              onChange={(hostMode) => change({ hostMode })}
              options={[
                { id: 'local', label: words.hostLocal },
                { id: 'public', label: words.hostPublic },
              ]}
            />
          </div>
          <span className="hint">{words.hostText}</span>
        </div>
      </FormDialog>
      {question.dialog}
    </>
  );
}

function Toggle({ label, text, children }: { label: string; text: string; children: ReactNode }) {
  return (
    <div className={styles.toggle} role="group" aria-label={label}>
      {children}
      <p className="meta">{text}</p>
    </div>
  );
}
