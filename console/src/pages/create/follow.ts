// Follows a build until it is ready: by the live socket, and by asking now and then, in case that is down.
import { type BuildLine, getBuild } from '../../api';
import { live } from '../../live';

const ASK_MS = 5000;
const ASK_DOWN_MS = 1000;

export class BuildFailed extends Error {
  readonly error_code = 'build_failed';
}

/** Throws a BuildFailed, or what the signal was aborted with. */
export function followBuild(
  templateID: string,
  buildID: string,
  onLines: (lines: BuildLine[]) => void,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let next = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = live.subscribe(
      `build:${templateID}/${buildID}`,
      (message) => {
        if (message.type === 'log' && message.next > next) {
          next = message.next;
          onLines(message.lines);
        }
        if (message.type === 'status' && typeof message.status === 'string') ended(message.status, message.reason);
      },
      () => next,
    );
    function finish(error?: unknown): void {
      clearTimeout(timer);
      stop();
      signal.removeEventListener('abort', aborted);
      if (error === undefined) resolve();
      else reject(error);
    }
    const aborted = () => finish(signal.reason ?? new DOMException('Aborted', 'AbortError'));
    function ended(status: string, reason: unknown): void {
      if (status === 'ready') finish();
      if (status !== 'error') return;
      const message = typeof reason === 'string' ? reason : (reason as { message?: string } | null)?.message;
      finish(new BuildFailed(message || 'The build failed.'));
    }
    async function ask(): Promise<void> {
      try {
        const from = next;
        const build = await getBuild(templateID, buildID, { logsOffset: from }, signal);
        if (signal.aborted) return;
        if (build.logEntries.length > 0 && next === from) {
          next = from + build.logEntries.length;
          onLines(build.logEntries as BuildLine[]);
        }
        ended(build.status, build.reason);
      } catch {
        // The server may be restarting; builds survive that.
      }
      plan();
    }
    function plan(): void {
      clearTimeout(timer);
      timer = setTimeout(() => void ask(), live.state === 'connected' ? ASK_MS : ASK_DOWN_MS);
    }
    signal.addEventListener('abort', aborted);
    timer = setTimeout(() => void ask(), ASK_DOWN_MS);
  });
}
