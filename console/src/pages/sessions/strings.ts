// What this page says.
export const strings = {
  title: 'Sessions',
  text: 'Where you are signed in. A session ends after 30 days without use, and after 90 days in all.',
  columns: {
    browser: 'Browser',
    address: 'Address',
    seen: 'Last seen',
    began: 'Signed in',
    ends: 'Ends',
    actions: 'Actions',
  },
  current: 'this one',
  unknown: 'Unknown program',
  noAddress: '–',
  end: 'End…',
  endOf: (browser: string) => `End the session of ${browser}`,
  endTitle: (browser: string) => `End the session of ${browser}?`,
  endAction: 'End the session',
  endText: (where: string) =>
    `The browser at ${where} is signed out at once, and its terminals are closed. Shells and sandboxes go on.`,
  ended: 'The session has ended',
  signOut: 'Sign out',
  signOutFailed: 'Could not sign out',
  withKey: 'This page is used with an API key, which has no sessions.',
  another: 'To sign in with another browser, print a link on the server:',
  copy: 'Copy the command',
  somewhere: 'an unknown address',
};
