import type { FileDiff } from './lines';

const CHANGES = { edit: 'Edit', create: 'New file', delete: 'Deleted', rename: 'Renamed' };

export const strings = {
  label: (path: string) => (path ? `Changes of ${path}` : 'Changes'),
  change: ({ change, from }: FileDiff) =>
    change === 'edit' ? '' : change === 'rename' && from ? `renamed from ${from.slice(0, 200)}` : CHANGES[change],
  added: (count: number) => (count === 1 ? '1 line added' : `${count} lines added`),
  removed: (count: number) => (count === 1 ? '1 line removed' : `${count} lines removed`),
  addedLine: 'added: ',
  removedLine: 'removed: ',
  showAll: (count: number) => `Show all ${count} lines`,
  showLess: 'Show less',
  left: (count: number) => `${count} more lines are left out`,
  none: 'Nothing changes',
};
