// Open files and their edits. They live outside of the page's components: changing the tab, the page or the file loses
// nothing. Only leaving the console does, and the browser asks before.
import { EditorState, type Text } from '@codemirror/state';
import { useSyncExternalStore } from 'react';
import { basics, language } from '../../../editor/setup';
import { type FileText, isPlain } from '../../../editor/text';

export interface Document {
  path: string;
  /** Of the version that was read or written last; null if the file is not there any more. */
  etag: string | null;
  state: EditorState;
  saved: Text;
  separator: FileText['separator'];
  /** Too long for colours. */
  plain: boolean;
  dirty: boolean;
  /** Counts how often the state was replaced from outside. */
  revision: number;
  /** The version in the sandbox, if it is another one than was edited. */
  conflict: { text: string | null; etag: string | null } | null;
}

export interface Workspace {
  /** The directory at the top of the tree; empty: the working directory. */
  root: string;
  expanded: ReadonlySet<string>;
  hidden: boolean;
  /** Files in tabs, in order. */
  open: readonly string[];
  /** The one that was shown last. */
  current: string | null;
  documents: ReadonlyMap<string, Document>;
}

const EMPTY: Workspace = {
  root: '',
  expanded: new Set(),
  hidden: false,
  open: [],
  current: null,
  documents: new Map(),
};
const workspaces = new Map<string, Workspace>();
const listeners = new Set<() => void>();

export const workspaceOf = (id: string): Workspace => workspaces.get(id) ?? EMPTY;

export function change(id: string, part: Partial<Workspace>): void {
  workspaces.set(id, { ...workspaceOf(id), ...part });
  for (const listener of listeners) listener();
}

export function useWorkspace(id: string): Workspace {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => workspaceOf(id),
  );
}

export function setDocument(id: string, path: string, part: Partial<Document>): void {
  const { documents } = workspaceOf(id);
  const old = documents.get(path);
  if (!old) return;
  change(id, { documents: new Map(documents).set(path, { ...old, ...part }) });
}

export function addTab(id: string, path: string): void {
  const { open } = workspaceOf(id);
  if (!open.includes(path)) change(id, { open: [...open, path] });
}

/** Forgets a file and its edits; returns the tab to show instead. */
export function closeTab(id: string, path: string): string | null {
  const { open, documents } = workspaceOf(id);
  const at = open.indexOf(path);
  const rest = open.filter((one) => one !== path);
  const left = new Map(documents);
  left.delete(path);
  change(id, { open: rest, documents: left });
  return rest[Math.min(at, rest.length - 1)] ?? null;
}

/** A file or directory has another name now. */
export function renamed(id: string, from: string, to: string): void {
  const { open, documents, expanded } = workspaceOf(id);
  const moved = (path: string) =>
    path === from ? to : path.startsWith(`${from}/`) ? to + path.slice(from.length) : path;
  change(id, {
    open: open.map(moved),
    expanded: new Set([...expanded].map(moved)),
    documents: new Map([...documents].map(([path, one]) => [moved(path), { ...one, path: moved(path) }])),
  });
}

function stateOf(path: string, { text, separator }: FileText, selection?: EditorState['selection']): EditorState {
  return EditorState.create({
    doc: text,
    selection: selection && selection.main.head <= text.length ? { anchor: selection.main.head } : undefined,
    extensions: [basics(separator, path), language.of([])],
  });
}

/** A file was read: a new document, or the newer version of one without edits. */
export function put(id: string, path: string, file: FileText, etag: string | null): void {
  const { documents } = workspaceOf(id);
  const old = documents.get(path);
  const state = stateOf(path, file, old?.state.selection);
  const next: Document = {
    path,
    etag,
    state,
    saved: state.doc,
    separator: file.separator,
    plain: isPlain(file.text),
    dirty: false,
    revision: (old?.revision ?? 0) + 1,
    conflict: null,
  };
  change(id, { documents: new Map(documents).set(path, next) });
}

/** The person's own text replaces what is in the editor, as after a merge; it stays an edit. */
export function rewrite(id: string, path: string, text: string): void {
  const old = workspaceOf(id).documents.get(path);
  if (!old) return;
  const state = stateOf(path, { text, separator: old.separator }, old.state.selection);
  setDocument(id, path, { state, revision: old.revision + 1, dirty: true });
}

/** The editor has a new state. Tells the page only when it becomes or ceases to be edited. */
export function edited(id: string, path: string, state: EditorState): void {
  const document = workspaceOf(id).documents.get(path);
  if (!document) return;
  document.state = state;
  const dirty = !state.doc.eq(document.saved);
  if (dirty !== document.dirty) setDocument(id, path, { dirty });
}

/** What is saved has become the file. Edits since then stay. */
export function written(id: string, path: string, doc: Text, etag: string): void {
  const document = workspaceOf(id).documents.get(path);
  if (!document) return;
  setDocument(id, path, { saved: doc, etag, conflict: null, dirty: !document.state.doc.eq(doc) });
}

const hasEdits = () => [...workspaces.values()].some((one) => [...one.documents.values()].some((d) => d.dirty));

if (typeof window !== 'undefined') {
  window.addEventListener('beforeunload', (event) => {
    if (hasEdits()) event.preventDefault();
  });
}
