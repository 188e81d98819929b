// What can be done with a service at once, without a dialog.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { restartService, type Service, startAgain, stopService } from '../../../api';
import { applyService } from '../../../live/services';
import { toast } from '../../../ui';
import { strings } from './strings';

export type ServiceAct = 'restart' | 'start' | 'stop';

const CALLS: Record<ServiceAct, (id: string) => Promise<Service>> = {
  restart: restartService,
  start: startAgain,
  stop: stopService,
};

export interface ServiceActs {
  /** What is under way. */
  busy: ServiceAct | null;
  run: (act: ServiceAct) => Promise<void>;
}

export function useServiceActs(service: Service): ServiceActs {
  const [busy, setBusy] = useState<ServiceAct | null>(null);
  const client = useQueryClient();
  async function run(act: ServiceAct): Promise<void> {
    if (busy) return;
    setBusy(act);
    try {
      const next = await CALLS[act](service.id);
      applyService(client, { topic: '', type: 'service', service: next });
      toast.done(strings.done[act](service.name));
    } catch (error) {
      toast.failed(strings.failed(act, service.name), error);
      void client.invalidateQueries({ queryKey: ['services', service.sandboxId] });
    } finally {
      setBusy(null);
    }
  }
  return { busy, run };
}
