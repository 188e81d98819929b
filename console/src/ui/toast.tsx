// Short news at the edge: toast.done('todo-app paused'), toast.failed('Could not fork it', error).
import { X } from 'lucide-react';
import {
  Button as AriaButton,
  UNSTABLE_Toast as AriaToast,
  Text,
  UNSTABLE_ToastContent as ToastContent,
  UNSTABLE_ToastQueue as ToastQueue,
  UNSTABLE_ToastRegion as ToastRegion,
} from 'react-aria-components';
import { isApiError } from '../api/error';
import type { State } from '../format/sandbox';
import { Button } from './button';
import { messageOf, RequestId } from './error';
import { StateDot } from './status';

interface Note {
  state: State;
  title: string;
  text?: string;
  requestId?: string | null;
  action?: { label: string; run: () => void };
}

interface More {
  text?: string;
  action?: { label: string; run: () => void };
}

const queue = new ToastQueue<Note>({ maxVisibleToasts: 3 });

export const toast = {
  /** Something was done. Goes away by itself. */
  done(title: string, more: More = {}): void {
    queue.add({ state: 'done', title, ...more }, { timeout: 5000 });
  },
  /** Something is worth knowing. */
  note(title: string, more: More & { state?: State } = {}): void {
    queue.add({ state: 'waiting', title, ...more }, { timeout: 8000 });
  },
  /** Something failed. Stays until it is closed. */
  failed(title: string, error?: unknown, action?: { label: string; run: () => void }): void {
    const text = error === undefined ? undefined : messageOf(error);
    queue.add({ state: 'failed', title, text, requestId: isApiError(error) ? error.requestId : null, action });
  },
};

export function Toasts() {
  return (
    <ToastRegion queue={queue} className="toasts" aria-label="News">
      {({ toast: item }) => (
        <AriaToast toast={item} className="toast">
          <StateDot state={item.content.state} />
          <ToastContent className="grow">
            <Text slot="title">{item.content.title}</Text>
            {item.content.text && <Text slot="description">{item.content.text}</Text>}
            {item.content.requestId && <RequestId id={item.content.requestId} />}
          </ToastContent>
          {item.content.action && (
            <Button
              size="sm"
              onPress={() => {
                item.content.action?.run();
                queue.close(item.key);
              }}
            >
              {item.content.action.label}
            </Button>
          )}
          <AriaButton slot="close" aria-label="Close" className="btn quiet icon sm">
            <X />
          </AriaButton>
        </AriaToast>
      )}
    </ToastRegion>
  );
}
