// What a call of a tool changes in files: for its row (counts) and for its details (`<Diff>` of view.tsx).
import { compare } from './compare';
import type { FileDiff } from './lines';
import { readPatch } from './patch';

export { compare } from './compare';
export { countsOf, type DiffLine, type FileDiff } from './lines';
export { readPatch } from './patch';

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/**
 * The changes that a call asks for; null if it is not one that changes files. `data.diff` of a result is what really
 * happened, where there is one.
 */
export function diffOfCall(name: string, args: unknown, data?: unknown): FileDiff[] | null {
  const given = (typeof args === 'object' && args !== null ? args : {}) as Record<string, unknown>;
  const path = text(given.path).slice(0, 4096);
  const done = (typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>;
  switch (name) {
    case 'sandbox_write_file': {
      const file = compare(path, '', text(given.content), done.created === false ? 'edit' : 'create');
      // What was there before is not in the call.
      if (typeof done.added === 'number' && typeof done.removed === 'number') {
        return [{ ...file, added: done.added, removed: done.removed }];
      }
      return [file];
    }
    case 'sandbox_find_replace': {
      const diff = text(done.diff);
      if (diff) return readPatch(diff).map((file) => (file.path ? file : { ...file, path }));
      if (given.regex === true) return null;
      return [withoutNumbers(compare(path, text(given.find), text(given.replace)))];
    }
    case 'sandbox_apply_patch':
      return readPatch(text(given.patch));
    default:
      return null;
  }
}

/** For pieces of files: where they stand is not known. */
function withoutNumbers(file: FileDiff): FileDiff {
  return { ...file, lines: file.lines.map((line) => ({ ...line, old: null, new: null })) };
}
