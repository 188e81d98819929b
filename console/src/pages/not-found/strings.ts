// What this page says.
export const strings = {
  title: 'Nothing here',
  text: 'There is no page at this address. It may have moved, or the link has a typing error.',
  home: 'Go to the dashboard',
};
