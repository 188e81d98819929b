// What this page says.
export const strings = {
  title: 'Account',
  who: 'Who you are',
  name: 'Name',
  email: 'Email',
  emailHint: 'You sign in with it.',
  save: 'Save',
  saved: 'Saved',
  password: 'Password',
  change: 'Change the password',
  set: 'Set a password',
  current: 'Present password',
  next: 'New password',
  hint: '10 to 200 characters. Your other sessions end.',
  done: 'The password is set; other sessions have ended',
  needEmail: 'Save an email first: one signs in with both.',
  byKey: 'This session was signed in with an API key, which is no person.',
};
