// The shortest ways to use this sandbox from a program.
import { cli, curl } from '../../../format/snippet';
import type { Snippet } from '../../../ui';

export function accessSnippets(id: string): Snippet[] {
  return [
    {
      label: 'Python',
      text: `from e2b import Sandbox\n\nbox = Sandbox.connect("${id}")\nprint(box.commands.run("uname -a").stdout)`,
    },
    {
      label: 'JavaScript',
      text:
        `import { Sandbox } from 'e2b';\n\nconst box = await Sandbox.connect('${id}');\n` +
        `console.log((await box.commands.run('uname -a')).stdout);`,
    },
    {
      label: 'CLI',
      text: `${cli('exec', id, '--', 'uname', '-a')}\n${cli('shell', id)}\n${cli('cp', 'data.csv', `${id}:/home/user/`)}`,
    },
    { label: 'curl', text: curl('POST', `/sandboxes/${id}/tools/sandbox_run_command`, { command: 'uname -a' }) },
  ];
}
