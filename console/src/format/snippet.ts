// The same act as a command and as an API call. Everything that comes from outside is quoted.

/** Quotes a word for a POSIX shell, if it needs it. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** `cli('create', '--template', 'base')`; `undefined` and `false` are left out. */
export function cli(...words: (string | number | false | null | undefined)[]): string {
  const given = words.filter((word) => word !== undefined && word !== null && word !== false);
  return ['cabana', ...given.map((word) => quote(String(word)))].join(' ');
}

/** A curl command with the key in a variable. */
export function curl(method: string, path: string, body?: unknown, origin: string = here()): string {
  const lines = [`curl ${method === 'GET' ? '' : `-X ${method} `}${quote(origin + path)}`];
  lines.push('-H "X-API-KEY: $CABANA_API_KEY"');
  if (body !== undefined) {
    lines.push("-H 'Content-Type: application/json'", `-d ${quote(JSON.stringify(body))}`);
  }
  return lines.join(' \\\n  ');
}

function here(): string {
  return typeof location === 'undefined' ? 'http://127.0.0.1:3000' : location.origin;
}
