// What this page says.
import { plural } from '../../format/size';

export const strings = {
  title: 'This server',
  running: (count: number) => `${plural(count, 'sandbox', 'sandboxes')} up`,
  version: 'Version',
  address: 'Address',
  capacity: 'Capacity',
  capacityText: 'What running sandboxes may use together. Beyond it none is created or resumed.',
  memory: 'Memory given to sandboxes',
  disk: 'Disk given to sandboxes',
  of: (part: string, whole: string) => `${part} of ${whole}`,
  noLimit: (part: string) => `${part}, without a limit`,
  free: 'Free on disk',
  reserve: (free: string, reserve: string) => `${free}, of which ${reserve} stay in reserve`,
  storage: {
    ok: null,
    low: 'The disk is almost full: no sandbox is created, and running ones can write little. Delete snapshots, templates or sandboxes.',
    read_only: 'The disk was full: sandboxes cannot write until the server has mounted their disks again.',
  } as Record<string, string | null>,
  clamped: (count: number) =>
    `${plural(count, 'sandbox has a disk', 'sandboxes have disks')} limited to little more than what is used, until there is space.`,
  can: 'What it can do',
  isolations: 'Isolation',
  isDefault: 'default',
  backends: {
    native: 'Sandboxes share this machine’s kernel, each in its own namespaces with a filter on system calls.',
  } as Record<string, string>,
  otherBackend: 'Another isolation backend.',
  features: {
    diskQuota: ['The size of a sandbox’s disk is enforced', 'Disks are not limited: one sandbox can fill the pool'],
    copies: ['Disks can be copied: snapshots, forks and templates', 'No snapshots, forks or templates of your own'],
    pauseMemory: ['Pausing keeps processes and memory', 'Pausing keeps the disk alone'],
    memoryOutlivesReboot: [
      'Memory of paused sandboxes survives a reboot of the machine',
      'After a reboot paused sandboxes start from their disks',
    ],
  } as Record<string, [string, string]>,
  backend: {
    checkpoint: ['Memory can be written to disk', 'Memory stays in RAM while paused'],
    mounts: ['Directories of the host can be mounted', 'Directories of the host cannot be mounted'],
  },
  outOfMemory: {
    process: 'Out of memory ends the process that asked',
    sandbox: 'Out of memory ends the sandbox',
  } as Record<string, string>,
  yes: 'Yes:',
  no: 'No:',
  protection: 'Protection',
  raise: 'What raises it',
  checks: 'Checks',
  checksText: 'The same as cabana doctor.',
  groups: { machine: 'Machine', protection: 'Protection', hardening: 'Hardening', server: 'Server' } as Record<
    string,
    string
  >,
  states: { ok: 'fine', warning: 'could be better', failed: 'failed' } as Record<string, string>,
  allFine: (count: number) => `all ${count} fine`,
  open: (count: number) => `${count} to look at`,
  consistency: 'Consistency',
  consistencyText: 'Compares what the server has written down with what is on the machine.',
  check: 'Check now',
  same: 'Nothing differs.',
  differs: (count: number) => plural(count, 'difference'),
  recheck: 'Check again',
};
