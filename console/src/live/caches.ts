// Which cached queries a topic is about.

/** Beginnings of query keys to fetch again when messages of a topic may be missing. */
export function keysOf(topic: string): string[][] {
  const at = topic.indexOf(':');
  const kind = at < 0 ? topic : topic.slice(0, at);
  const rest = at < 0 ? '' : topic.slice(at + 1);
  switch (kind) {
    case 'sandboxes':
      return [['sandboxes'], ['events'], ['status']];
    case 'sandbox':
      return [['sandbox', rest], ['ports', rest], ['services', rest], ['snapshots']];
    case 'service':
      return [['service', rest]];
    case 'templates':
      return [['templates'], ['template']];
    case 'build':
      return [['build', ...rest.split('/')]];
    case 'chats':
      return [['chats']];
    case 'server':
      return [['status']];
    default:
      return [];
  }
}
