// Where the sign-in page is, and where it leads.

/** Where to go after signing in: a path of the console, whatever the URL says. */
export function safeTarget(to: string | null | undefined): string {
  return to && /^\/(?![/\\])/.test(to) && !/^\/(sign-in|welcome|invitation)/.test(to) ? to : '/';
}

/** The sign-in page that comes back to where one is. */
export function signInPath(here: string): string {
  const to = safeTarget(here);
  return to === '/' ? '/sign-in' : `/sign-in?to=${encodeURIComponent(to)}`;
}
