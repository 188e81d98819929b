// Patches: unified diffs, as git writes them, and texts that begin with `*** Begin Patch`. Pure. They may be half: a model
// may still be writing, or have it wrong; what can be read is shown.
import { Builder, type FileDiff, linesOf, MOST_FILES } from './lines';

export function readPatch(text: string): FileDiff[] {
  return /^\s*\*\*\* Begin Patch/.test(text.slice(0, 200)) ? readBegin(text) : readUnified(text);
}

const HUNK = /^@@+ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@+ ?(.*)$/;

function readUnified(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: Builder | null = null;
  let old = '';
  // Lines of a hunk that are still to come; a line with --- in it is a line, and no head of a file.
  let rest = { old: 0, new: 0 };
  const close = () => {
    if (file && files.length < MOST_FILES) files.push(file.done());
    file = null;
  };
  for (const line of linesOf(text)) {
    const inHunk = rest.old > 0 || rest.new > 0;
    // No line of a hunk begins like these, whatever its head counts.
    if (line.startsWith('diff --git ')) {
      close();
      rest = { old: 0, new: 0 };
      file = new Builder(/ b\/(.+)$/.exec(line)?.[1]?.slice(0, 4096) ?? '');
    } else if (!inHunk && line.startsWith('--- ')) {
      old = pathOf(line.slice(4));
    } else if (!inHunk && line.startsWith('+++ ')) {
      file = head(file, close, old, pathOf(line.slice(4)));
    } else if (!inHunk && file && line.startsWith('new file mode')) {
      file.change = 'create';
    } else if (!inHunk && file && line.startsWith('deleted file mode')) {
      file.change = 'delete';
    } else if (!inHunk && file && line.startsWith('rename from ')) {
      old = line.slice(12);
    } else if (!inHunk && file && line.startsWith('rename to ')) {
      file.rename(old, line.slice(10));
    } else if (line.startsWith('@@')) {
      file ??= new Builder('');
      rest = hunk(file, line);
    } else if (file && (inHunk || !rest.old)) {
      rest = body(file, line, rest);
    }
  }
  close();
  return files;
}

/** The file that `+++` names: the one that git's own line began, or another. */
function head(file: Builder | null, close: () => void, from: string, to: string): Builder {
  const path = to === '/dev/null' ? from : to;
  const change = from === '/dev/null' ? 'create' : to === '/dev/null' ? 'delete' : 'edit';
  if (file?.isEmpty) {
    const known = file.done();
    if (change === 'edit' || known.change !== 'edit') {
      known.path ||= path;
      return file;
    }
  }
  if (file && !file.isEmpty) close();
  return new Builder(path, change);
}

function hunk(file: Builder, line: string): { old: number; new: number } {
  const at = HUNK.exec(line);
  if (!file.isEmpty || at?.[3]) file.push('gap', at?.[3] ?? '');
  if (!at) {
    // Without numbers, as some models write them: all that follows belongs to it.
    file.goTo(null, null);
    return { old: 0, new: 0 };
  }
  file.goTo(Number(at[1]), Number(at[2]));
  const count = (mark: string) => {
    const found = new RegExp(`\\${mark}\\d{1,9}(?:,(\\d{1,9}))?`).exec(line);
    return found?.[1] === undefined ? 1 : Number(found[1]);
  };
  return { old: count('-'), new: count('+') };
}

function body(file: Builder, line: string, rest: { old: number; new: number }): { old: number; new: number } {
  if (line.startsWith('\\')) return rest;
  const text = line.slice(1);
  if (line.startsWith('+')) {
    file.push('add', text);
    return { old: rest.old, new: Math.max(0, rest.new - 1) };
  }
  if (line.startsWith('-')) {
    file.push('del', text);
    return { old: Math.max(0, rest.old - 1), new: rest.new };
  }
  if (!line.startsWith(' ') && line !== '') return rest;
  file.push('same', text);
  return { old: Math.max(0, rest.old - 1), new: Math.max(0, rest.new - 1) };
}

/** `a/x`, `b/x` and times behind a tab. */
function pathOf(text: string): string {
  const path = text.replace(/\t.*$/s, '').trim().slice(0, 4096);
  return path === '/dev/null' ? path : path.replace(/^[ab]\//, '');
}

function readBegin(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: Builder | null = null;
  const close = () => {
    if (file && files.length < MOST_FILES) files.push(file.done());
  };
  for (const line of linesOf(text)) {
    const mark = /^\*\*\* (Add File|Update File|Delete File|Move to|End of File|End Patch|Begin Patch):? ?(.*)$/.exec(
      line,
    );
    if (!mark) {
      if (file) beginBody(file, line);
      continue;
    }
    const path = mark[2]!.trim().slice(0, 4096);
    if (mark[1] === 'Move to') file?.rename(file.done().path, path);
    if (!mark[1]!.endsWith('File') || mark[1] === 'End of File') continue;
    close();
    const change = mark[1] === 'Add File' ? 'create' : mark[1] === 'Delete File' ? 'delete' : 'edit';
    file = new Builder(path, change, null, change === 'create' ? 1 : null);
  }
  close();
  return files;
}

function beginBody(file: Builder, line: string): void {
  if (line.startsWith('@@')) {
    const words = line.slice(2).trim();
    if (!file.isEmpty || words) file.push('gap', words);
  } else if (line.startsWith('+')) file.push('add', line.slice(1));
  else if (line.startsWith('-')) file.push('del', line.slice(1));
  else file.push('same', line.startsWith(' ') ? line.slice(1) : line);
}
