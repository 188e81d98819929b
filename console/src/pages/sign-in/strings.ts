// What this page says.
export const strings = {
  title: 'Sign in',
  text: 'With an API key of your team. The key is not kept in this browser.',
  key: 'API key',
  placeholder: 'e2b_…',
  submit: 'Sign in',
  empty: 'Paste a key. It begins with e2b_.',
  shape: 'This is not an API key: those begin with e2b_.',
  refused: 'The server does not know this key.',
  server: 'On the server, a link that signs you in:',
};
