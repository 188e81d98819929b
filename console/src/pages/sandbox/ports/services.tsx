// The services of a sandbox.
import { type UseQueryResult, useQueryClient } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { deleteService, isApiError, type Service } from '../../../api';
import { plainName } from '../../../format/plain';
import { curl } from '../../../format/snippet';
import { applyService } from '../../../live/services';
import { Button, ConfirmDialog, EmptyState, SkeletonRows, Snippets, toast } from '../../../ui';
import { strings as words } from '../strings';
import { TabQuery } from '../tab-query';
import { LinksDialog } from './links';
import { type ServiceDialog, ServiceRow } from './row';
import styles from './services.module.css';
import { SettingsDialog } from './settings';
import { strings } from './strings';

export interface ServicesProps {
  sandboxId: string;
  query: UseQueryResult<Service[]>;
  /** The service in the pane. */
  selected: string | null;
  compact: boolean;
  /** The page has another primary button. */
  quiet: boolean;
  onStart: () => void;
  onSelect: (id: string | null) => void;
}

export function Services({ sandboxId, query, selected, compact, quiet, onStart, onSelect }: ServicesProps) {
  const [dialog, open] = useState<{ kind: ServiceDialog; id: string } | null>(null);
  const subject = dialog && query.data?.find((one) => one.id === dialog.id);
  const close = () => open(null);
  return (
    <>
      <TabQuery id={sandboxId} query={query} skeleton={<SkeletonRows rows={2} />}>
        {(services) =>
          services.length === 0 ? (
            <EmptyState
              title={strings.empty}
              command={`cabana service start ${sandboxId} -- 'npm run dev'`}
              action={
                <Button look={quiet ? 'plain' : 'primary'} onPress={onStart}>
                  <Plus />
                  {strings.start}
                </Button>
              }
            >
              {strings.emptyText}
            </EmptyState>
          ) : (
            <section className="card">
              <header>
                <h2>{strings.services}</h2>
                <span className="row card-actions">
                  <Button size="sm" onPress={onStart}>
                    <Plus />
                    {strings.start}
                  </Button>
                </span>
              </header>
              {services.some((one) => one.state === 'suspended') && (
                <p className={`meta ${styles.note}`}>{strings.suspended}</p>
              )}
              <ul aria-label={strings.list}>
                {services.map((service) => (
                  <ServiceRow
                    key={service.id}
                    service={service}
                    isSelected={service.id === selected}
                    compact={compact}
                    onOpen={() => onSelect(service.id)}
                    onDialog={(kind) => open({ kind, id: service.id })}
                  />
                ))}
              </ul>
            </section>
          )
        }
      </TabQuery>
      {subject && dialog?.kind === 'links' && <LinksDialog service={subject} onClose={close} />}
      {subject && dialog?.kind === 'settings' && <SettingsDialog service={subject} onClose={close} />}
      {subject && dialog?.kind === 'delete' && (
        <DeleteDialog service={subject} onClose={close} onDeleted={() => subject.id === selected && onSelect(null)} />
      )}
    </>
  );
}

interface DeleteProps {
  service: Service;
  onClose: () => void;
  onDeleted: () => void;
}

function DeleteDialog({ service, onClose, onDeleted }: DeleteProps) {
  const client = useQueryClient();
  const name = plainName(service.name, 40);
  async function remove(): Promise<void> {
    await deleteService(service.id).catch((error: unknown) => {
      // Somebody else was faster: it is gone, as wanted.
      if (!isApiError(error) || error.code !== 404) throw error;
    });
    toast.done(strings.done.delete(name));
    onDeleted();
    onClose();
    applyService(client, { topic: '', type: 'service', deleted: service.id, sandboxId: service.sandboxId });
  }
  return (
    <ConfirmDialog
      isOpen
      onClose={onClose}
      title={strings.remove.title(name)}
      action={strings.remove.act(name)}
      onConfirm={remove}
    >
      <p>{strings.remove.lost}</p>
      <p>{strings.remove.kept}</p>
      <Snippets label={words.same} snippets={[{ label: 'API', text: curl('DELETE', `/services/${service.id}`) }]} />
    </ConfirmDialog>
  );
}
