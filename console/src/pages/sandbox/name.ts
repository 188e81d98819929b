// What a sandbox is called on this page.
import type { SandboxFull } from '../../api';
import { plainName } from '../../format/plain';
import { sandboxName } from '../../format/sandbox';

export const nameOf = (sandbox: Pick<SandboxFull, 'sandboxID' | 'metadata'>): string =>
  plainName(sandboxName(sandbox), 80);

/** The page that creates another one like it. */
export function againPath(sandbox: SandboxFull): string {
  const wanted = {
    template: sandbox.alias || sandbox.templateID,
    cpu: sandbox.cpuCount,
    memory: sandbox.memoryMB,
    disk: sandbox.diskSizeMB,
  };
  const given = Object.entries(wanted).filter(([, value]) => value);
  return `/create?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}
