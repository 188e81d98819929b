// What the calls of a conversation changed in files, read once for each call.
import { diffOfCall, type FileDiff } from '../../chats/diff';
import type { CallView, MessageView } from '../../chats/state/types';

const read = new WeakMap<CallView, FileDiff[]>();
const NONE: readonly FileDiff[] = [];
let last: { key: readonly FileDiff[]; made: readonly FileDiff[] } = { key: [], made: NONE };

function of(call: CallView): FileDiff[] {
  const known = read.get(call);
  if (known) return known;
  const made = call.status === 'success' ? (diffOfCall(call.name, call.arguments, call.data) ?? []) : [];
  read.set(call, made);
  return made;
}

/** The same list as long as nothing new was changed. */
export function changesOf(messages: readonly MessageView[]): readonly FileDiff[] {
  const all = messages.flatMap((message) => message.calls.flatMap(of));
  if (all.length === last.key.length && all.every((file, i) => file === last.key[i])) return last.made;
  last = { key: all, made: all };
  return all;
}
