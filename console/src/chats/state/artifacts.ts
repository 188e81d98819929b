// Which turn left which files. The server keeps them when a turn ends, and does not say which it was. Pure.
import type { Attachment } from '../../api/chat-types';
import type { MessageView } from './types';

/** Artifacts by the turn after whose last message they came; those that a call made stand with the call. */
export function artifactsByTurn(
  messages: readonly MessageView[],
  attachments: Iterable<Attachment>,
): ReadonlyMap<string, readonly Attachment[]> {
  const found = new Map<string, Attachment[]>();
  const ofCalls = new Set(
    messages.flatMap((one) => one.calls.flatMap((call) => call.attachments.map((made) => made.id))),
  );
  const files = [...attachments].filter((one) => one.kind === 'artifact' && !ofCalls.has(one.id));
  if (files.length === 0) return found;
  // A person's message may be older than the turn that it waited for.
  const answers = messages
    .filter((message) => message.role === 'assistant')
    .map((message) => ({ turnId: message.turnId, at: Date.parse(message.createdAt) }));
  for (const file of files) {
    const at = Date.parse(file.createdAt);
    const turn = answers.findLast((answer) => answer.at <= at)?.turnId;
    if (turn) found.set(turn, [...(found.get(turn) ?? []), file]);
  }
  return found;
}
