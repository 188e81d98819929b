// What a pane shows of a service. Pure.
import type { ServiceState } from '../../wire';

export type View = 'frame' | 'starting' | 'suspended' | 'down';

/** `waking`: somebody asked for it, and the frame's own request wakes the sandbox. */
export function viewOf(state: ServiceState, waking: boolean): View {
  switch (state) {
    case 'running':
      return 'frame';
    case 'starting':
      return waking ? 'frame' : 'starting';
    case 'suspended':
      return waking ? 'frame' : 'suspended';
    default:
      return 'down';
  }
}

/** Whether waking goes on in this state. */
export const isWaking = (state: ServiceState): boolean => state === 'suspended' || state === 'starting';
