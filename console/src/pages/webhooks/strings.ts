// What this page says.
import { plural } from '../../format/size';

export const strings = {
  title: 'Webhooks',
  text: 'A webhook is an address that is told what happens to your team’s sandboxes: at least once, in order, signed.',
  create: 'New webhook',
  columns: { name: 'Name', url: 'Address', events: 'Events', state: 'State', on: 'On', actions: 'Actions' },
  sending: 'Sending',
  off: 'Off',
  waiting: (count: number) => `${count} waiting`,
  dropped: (count: number) => `${plural(count, 'event')} given up`,
  events: (count: number) => plural(count, 'event'),
  allEvents: 'all events',
  actionsOf: (name: string) => `More about ${name}`,
  open: 'Deliveries',
  edit: 'Change…',
  delete: 'Delete…',
  switch: (name: string) => `Send events to ${name}`,
  switchedOn: (name: string) => `${name} gets events from now on`,
  switchedOff: (name: string) => `${name} gets no events, and what waited is discarded`,
  switchFailed: 'Could not change the webhook',
  offTitle: (name: string) => `Switch ${name} off?`,
  offAction: 'Switch it off',
  offText: (count: number) => `${plural(count, 'event that waits', 'events that wait')} for it are discarded.`,
  emptyTitle: 'No webhooks yet',
  emptyText: 'Have a program told when a sandbox is created, paused, fails or ends, instead of asking again and again.',
  deleteTitle: (name: string) => `Delete ${name}?`,
  deleteAction: (name: string) => `Delete ${name}`,
  deleteText: (url: string, pending: number) =>
    `${url} gets no events from now on. Lost: the record of deliveries` +
    (pending > 0 ? `, and ${plural(pending, 'event that waits', 'events that wait')}.` : '.'),
  deleted: (name: string) => `${name} is deleted`,
  form: {
    newTitle: 'New webhook',
    editTitle: (name: string) => `Change ${name}`,
    name: 'Name',
    url: 'Address',
    urlHint: 'http or https. Addresses of private networks are refused unless the server’s operator allows them.',
    urlError: 'An address begins with http:// or https://.',
    events: 'Events',
    all: 'All',
    none: 'None',
    secret: 'Signing secret',
    secretHint: 'Deliveries are signed with it. Keep it in the receiver: it is not shown again.',
    secretEdit: 'Empty: as it is.',
    secretError: 'Use at most 512 bytes.',
    make: 'Make another',
    enabled: 'Send events from now on',
    create: 'Create',
    save: 'Save',
    cancel: 'Cancel',
  },
  made: {
    title: (name: string) => `${name} is there`,
    text: 'This is the only time the secret is shown.',
    verify: 'How a receiver checks a delivery',
    done: 'I have copied it',
  },
  detail: {
    deliveries: 'Deliveries',
    empty: 'Nothing was sent yet. The next event of a sandbox comes here.',
    columns: {
      event: 'Event',
      sandbox: 'Sandbox',
      state: 'State',
      tries: 'Tries',
      answer: 'Answer',
      took: 'Arrived after',
      when: 'When',
    },
    states: { pending: 'Waiting', delivered: 'Delivered', failed: 'Given up' },
    next: (when: string) => `next try ${when}`,
    retry: 'Try again now',
    retried: 'It is tried again at once',
    gone: 'This webhook is not there',
    refresh: 'Reload',
    secret: 'Secret',
    hidden: 'set, not shown',
    made: 'Made',
    about: 'About it',
  },
};

/** What each event is, in a few words. */
export const EVENTS: readonly { id: string; label: string; note: string }[] = [
  { id: 'created', label: 'created', note: 'the sandbox is up' },
  { id: 'killed', label: 'killed', note: 'it is removed, and why' },
  { id: 'failed', label: 'failed', note: 'it broke, and why' },
  { id: 'paused', label: 'paused', note: 'pausing is done' },
  { id: 'resumed', label: 'resumed', note: 'it is up again' },
  { id: 'updated', label: 'updated', note: 'its timeout changed, or memory ran out' },
  { id: 'snapshotted', label: 'snapshotted', note: 'a snapshot was made' },
  { id: 'archived', label: 'archived', note: 'its disk was packed away' },
  { id: 'restored', label: 'restored', note: 'its disk is back' },
  { id: 'memory_lost', label: 'memory_lost', note: 'its processes are gone' },
  { id: 'requested', label: 'requested', note: 'somebody asked for it' },
  { id: 'pausing', label: 'pausing', note: 'pausing follows' },
  { id: 'resuming', label: 'resuming', note: 'resuming follows' },
  { id: 'archiving', label: 'archiving', note: 'archiving follows' },
  { id: 'ending', label: 'ending', note: 'removing follows' },
  { id: 'unchanged', label: 'unchanged', note: 'what was asked for was not done' },
];

export const PREFIX = 'sandbox.lifecycle.';

export const VERIFY = `import base64, hashlib, hmac

def is_ours(secret: str, body: bytes, signature: str) -> bool:
    digest = hashlib.sha256(secret.encode() + body).digest()
    ours = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return hmac.compare_digest(ours, signature)  # of the header e2b-signature`;
