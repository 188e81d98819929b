// What this page says.
export const strings = {
  title: 'Invitation',
  checking: 'Looking at the invitation',
  heading: (team: string) => `Join ${team}`,
  text: (email: string, role: string) => `${email} is invited as ${role}.`,
  name: 'Your name',
  password: 'Choose a password',
  hint: '10 to 200 characters.',
  noName: 'Write your name.',
  short: 'A password has at least 10 characters.',
  join: 'Make the account and join',
  joinAs: 'Join',
  signedIn: (name: string) => `You are signed in as ${name}.`,
  hasAccount: 'You have an account with this email. Sign in to it, then open the link again.',
  signIn: 'Sign in',
  missing: 'The link is not complete. Open it as it was sent to you.',
  badTitle: 'This invitation does not work',
};
