// What a program that listens was started with, so that a service can take its place.
import { callTool } from '../../../api';
import { parseStarted, type Started } from './started';

/** null where it is not known, as for programs of other users. */
export async function startedAs(sandboxId: string, pid: number): Promise<Started | null> {
  const command = `readlink /proc/${pid}/cwd && tr '\\0' '\\n' </proc/${pid}/cmdline`;
  const result = await callTool(sandboxId, 'sandbox_run_command', { command, timeout_seconds: 10 });
  return result.status === 'success' ? parseStarted(result.output) : null;
}

/** Ends a program and waits until it has ended; one that nobody has waited for yet has, too. */
export async function endProcess(sandboxId: string, pid: number): Promise<boolean> {
  const command = [
    `gone() { [ ! -e /proc/${pid} ] || grep -q '^State:[[:space:]]*Z' /proc/${pid}/status; }`,
    `kill ${pid}`,
    'for i in $(seq 50); do gone && exit 0; sleep 0.1; done',
    `kill -9 ${pid}`,
    'sleep 0.2',
    'gone',
  ].join('\n');
  const result = await callTool(sandboxId, 'sandbox_run_command', { command, timeout_seconds: 20 });
  return result.status === 'success';
}
