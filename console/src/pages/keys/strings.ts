// What this page says.
import { plural } from '../../format/size';

export const strings = {
  title: 'API keys',
  text: 'Programs sign in with a key. Each may do everything that your team may: give each program its own.',
  create: 'New key',
  columns: { name: 'Name', key: 'Key', created: 'Made', used: 'Last used', actions: 'Actions' },
  never: 'never',
  count: (keys: number) => plural(keys, 'key'),
  actionsOf: (name: string) => `More about ${name}`,
  rename: 'Rename…',
  revoke: 'Revoke…',
  lastNote:
    'The last key cannot be revoked: without one, no program and no command line could get in. Make another first.',
  emptyTitle: 'No keys',
  emptyText: 'A key is how a program signs in.',
  newTitle: 'New API key',
  name: 'Name',
  nameHint: 'What uses it: laptop, ci, agent.',
  nameError: 'Use 1 to 256 bytes.',
  make: 'Make the key',
  cancel: 'Cancel',
  madeTitle: (name: string) => `Key ${name}`,
  madeText: 'This is the only time it is shown. The server keeps a hash of it alone.',
  key: 'Key',
  environment: 'Lines for a shell',
  sdks: 'E2B’s SDKs',
  cli: 'Command line',
  done: 'I have copied it',
  renameTitle: (name: string) => `Rename ${name}`,
  renameIt: 'Rename',
  renamed: 'Renamed',
  revokeTitle: (name: string) => `Revoke ${name}?`,
  revokeAction: (name: string) => `Revoke ${name}`,
  revokeText: (mask: string) =>
    `Programs that use ${mask} get 401 from now on, and people who signed in to this console with it are signed out. ` +
    'Sandboxes, templates and other keys stay.',
  usedNow: (when: string) => `It was used ${when}: something still needs it.`,
  neverUsed: 'It was never used.',
  revoked: (name: string) => `${name} is revoked`,
};
