// What this page says.
export const strings = {
  title: 'About',
  text: 'Cabana runs sandboxes on your own machine. This console is part of the same program and uses its public API alone.',
  server: 'Server',
  address: 'Address',
  isolation: 'Isolation',
  team: 'Team',
  person: 'Signed in as',
  licence: 'Licence',
  own: 'Apache-2.0',
  packages: 'Packages in this console',
  packagesText: 'Made when the console was built, from the packages themselves.',
  search: 'Name or licence',
  noText: 'The package has no licence file.',
  by: (author: string) => `by ${author}`,
  count: (shown: number, all: number) => (shown === all ? `${all}` : `${shown} of ${all}`),
};
