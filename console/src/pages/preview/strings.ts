// What this page says.
export const strings = {
  title: 'Preview',
  opening: (port: number) => `Opening port ${port}…`,
  invalid: {
    title: 'This is no address of a service',
    text: 'Addresses of services look like https://PORT-ID.DOMAIN/. Open the service from the page of its sandbox.',
  },
  unknown: {
    title: 'No such service in your team',
    text: 'It may have been deleted, its sandbox may have ended, or it belongs to another team. Ask whoever gave you the address for a link.',
  },
  none: {
    title: (port: number) => `No service at port ${port}`,
    text: 'The sandbox is there, but no service uses this port. Make one on the page of the sandbox.',
  },
  elsewhere: {
    title: 'This address is not below the domain of this server',
    text: 'The service is there under another address. Open it from the page of its sandbox.',
  },
  circles: {
    title: 'The browser does not keep the cookie of this preview',
    text: 'It was opened several times, and each time the browser came back without the cookie. Allow cookies for its address, or look at the service in the console.',
  },
  failed: 'The service could not be opened',
  again: 'Try again',
  sandbox: 'Show the sandbox',
  pane: 'Show in the console',
  sandboxes: 'All sandboxes',
};
