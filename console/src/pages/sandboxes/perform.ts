// Does an act on one sandbox.
import {
  archiveSandbox,
  forkSandbox,
  isApiError,
  killSandbox,
  pauseSandbox,
  recoverSandbox,
  resumeSandbox,
  type SandboxRow,
  snapshotSandbox,
} from '../../api';
import { type Act, timeoutFor } from './acts';

async function fork(row: SandboxRow): Promise<string | null> {
  const [result] = await forkSandbox(row.sandboxID, { timeout: timeoutFor(row, Date.now()) });
  if (result?.error) throw new Error(result.error.message);
  return result?.sandbox?.sandboxID ?? null;
}

/** Gives the id of what it made: a fork or a snapshot. */
export async function perform(act: Act, row: SandboxRow): Promise<string | null> {
  const id = row.sandboxID;
  switch (act) {
    case 'pause':
      await pauseSandbox(id);
      return null;
    case 'resume':
      await resumeSandbox(id, { timeout: timeoutFor(row, Date.now()) });
      return null;
    case 'snapshot':
      return (await snapshotSandbox(id)).snapshotID;
    case 'fork':
      return fork(row);
    case 'archive':
      await archiveSandbox(id);
      return null;
    case 'recover':
      await recoverSandbox(id);
      return null;
    case 'kill':
      await killSandbox(id).catch((error) => {
        // It is gone, which is what was wanted.
        if (!isApiError(error, 'sandbox_not_found')) throw error;
      });
      return null;
  }
}

/** Seconds after which the server takes more requests; null if it refused for another reason. */
export function waitFor(error: unknown): number | null {
  if (!isApiError(error) || error.error_code !== 'rate_limited') return null;
  return error.retryAfter ?? 1;
}
