import assert from 'node:assert/strict';
import { test } from 'node:test';
import { took } from '../took';
import { clean } from './clean';
import { Parser, parse } from './parse';
import type { Block, Inline } from './tree';

const first = (text: string): Block => parse(text).blocks[0]!.block;
const inlineOf = (text: string): Inline[] => (first(text) as { children: Inline[] }).children;

/** Everything in a tree, so that what must not be there can be looked for. */
const links = (node: unknown): string[] =>
  JSON.stringify(node, (key, value) => (key === 'href' && value ? `<<${value}>>` : value)).match(/<<.*?>>/g) ?? [];

test('blocks', () => {
  const { blocks } = parse('# A\n\nb *c* **d** ~~e~~ `f`  \ng\n\n- [x] h\n- [ ] i\n\n3. j\n\n> k\n\n---\n');
  assert.deepEqual(
    blocks.map((top) => top.block.t),
    ['heading', 'paragraph', 'list', 'list', 'quote', 'rule'],
  );
  const tasks = blocks[2]!.block;
  assert.ok(tasks.t === 'list' && tasks.start === null);
  assert.deepEqual(
    tasks.items.map((item) => item.done),
    [true, false],
  );
  const numbers = blocks[3]!.block;
  assert.ok(numbers.t === 'list' && numbers.start === 3);
  assert.deepEqual(first('```ts\nlet a;\n```'), { t: 'code', language: 'ts', text: 'let a;' });
  assert.deepEqual(first('```\nunclosed\n'), { t: 'code', language: '', text: 'unclosed' });
  assert.deepEqual(inlineOf('a &amp; b &#60; c &copy;'), [{ t: 'text', text: 'a & b < c ©' }]);
  assert.deepEqual(inlineOf('`&amp; <b>`'), [{ t: 'code', text: '&amp; <b>' }]);
});

test('tables', () => {
  const table = first(`|a|b|\n|-|:-:|\n${'|c|d|\n'.repeat(300)}`);
  assert.ok(table.t === 'table');
  assert.deepEqual(table.align, [null, 'center']);
  assert.equal(table.rows.length, 200);
  assert.equal(table.left, 100);
  const wide = first(`${'|a'.repeat(100)}|\n${'|-'.repeat(100)}|\n`);
  assert.ok(wide.t === 'table');
  assert.equal(wide.head.length, 24);
});

test('HTML is text', () => {
  assert.deepEqual(first('<img src=x onerror=alert(1)>'), { t: 'html', text: '<img src=x onerror=alert(1)>' });
  assert.deepEqual(first('<script>alert(1)</script>'), { t: 'html', text: '<script>alert(1)</script>' });
  assert.deepEqual(inlineOf('a <b onclick=x>c</b>'), [
    { t: 'text', text: 'a ' },
    { t: 'html', text: '<b onclick=x>' },
    { t: 'text', text: 'c' },
    { t: 'html', text: '</b>' },
  ]);
});

test('only addresses of the web and of mail are links', () => {
  for (const address of [
    'javascript:alert(1)',
    'JavaScript:alert(1)',
    ' javascript:alert(1)',
    'java&#115;cript:alert(1)',
    'java\tscript:alert(1)',
    '\u0001javascript:alert(1)',
    'data:text/html,<script>alert(1)</script>',
    'vbscript:x',
    'file:///etc/passwd',
    'blob:https://a.example/x',
    '//evil.example/x',
    '/console/settings/keys',
    '#x',
    'https://',
    `https://a.example/${'x'.repeat(5000)}`,
  ]) {
    for (const text of [`[a](<${address}>)`, `[a][1]\n\n[1]: <${address}>`, `<${address}>`, `![a](<${address}>)`]) {
      assert.deepEqual(links(parse(text)), [], text);
    }
  }
  assert.deepEqual(links(parse('[a](mailto:b@c.example?subject=d&bcc=e@f.example)')), ['<<mailto:b@c.example>>']);
  assert.deepEqual(links(parse('[a](https://user:word@b.example/)')), ['<<https://b.example/>>']);
});

test('a link says where it leads, unless its words are the address', () => {
  const shown = (text: string) => {
    const link = inlineOf(text).find((one) => one.t === 'link');
    return link?.t === 'link' ? link.shown : undefined;
  };
  assert.equal(shown('[docs](https://a.example/x)'), 'a.example');
  assert.equal(shown('[https://bank.example](https://evil.example/)'), 'evil.example');
  assert.equal(shown('[a.example.evil.example](https://a.example/)'), 'a.example');
  assert.equal(shown('[a.example bank.example](https://a.example/)'), 'a.example');
  assert.equal(shown('[a.example](https://a.example/x)'), null);
  assert.equal(shown('https://a.example/x?y'), null);
  assert.equal(shown('www.a.example'), null);
  assert.equal(shown('a@b.example'), null);
  assert.equal(shown('<https://a.example:8443/>'), null);
  // Cyrillic letters that look like Latin ones.
  assert.equal(shown('<https://\u0430pple.example/>'), 'xn--pple-43d.example');
  assert.equal(shown('https://bank.example@evil.example/'), 'evil.example');
  assert.equal(shown('[docs][1]\n\n[1]: https://evil.example'), 'evil.example');
  assert.equal(shown('[https://a.example\u2215x](https://b.example)'), 'b.example');
});

test('images are words with their host, and nothing is loaded', () => {
  assert.deepEqual(inlineOf('![x](https://evil.example/?q=secret)'), [
    { t: 'image', alt: 'x', href: 'https://evil.example/?q=secret', path: null, shown: 'evil.example' },
  ]);
  assert.deepEqual(inlineOf('![x](out/a%20b.png)'), [
    { t: 'image', alt: 'x', href: null, path: 'out/a b.png', shown: 'out/a%20b.png' },
  ]);
  assert.deepEqual(inlineOf('![x](data:image/svg+xml,<svg/onload=alert(1)>)').at(0), {
    t: 'image',
    alt: 'x',
    href: null,
    path: null,
    shown: 'data:',
  });
});

test('hidden characters are seen', () => {
  assert.equal(clean('a\u202eb\u200bc\u2066d\u0007e'), 'a·b·c·d·e');
  assert.equal(clean('a\u{e0041}\u{e0042}b\ufe01\ufe02c'), 'a·b·c');
  assert.equal(clean('a\r\nb\rc\td'), 'a\nb\nc\td');
  assert.equal(clean('👩\u200d💻 ❤\ufe0f 🏳\ufe0f\u200d🌈'), '👩\u200d💻 ❤\ufe0f 🏳\ufe0f\u200d🌈');
  assert.equal(clean('می\u200cخواهم'), 'می\u200cخواهم');
  assert.equal(clean('pay\u200cpal'), 'pay·pal');
  assert.deepEqual(inlineOf('a&#x202e;b'), [{ t: 'text', text: 'a·b' }]);
  assert.deepEqual(first('```\n\u202ea\n```'), { t: 'code', language: '', text: '·a' });
});

test('hostile texts are bounded', () => {
  const texts: Record<string, string> = {
    quotes: '>'.repeat(10_000),
    'quotes with blanks': `${'> '.repeat(10_000)}a`,
    lists: `${'- '.repeat(10_000)}a`,
    numbers: `${'1. '.repeat(10_000)}a`,
    'deep lists': Array.from({ length: 400 }, (_, i) => `${'  '.repeat(i)}- a`).join('\n'),
    mixed: `${'> - '.repeat(5000)}a`,
    'plain text': 'word '.repeat(200_000),
    paragraphs: 'word\n\n'.repeat(170_000),
    items: '- a\n'.repeat(250_000),
    rows: `|a|b|\n|-|-|\n${'|c|d|\n'.repeat(170_000)}`,
    fence: `\`\`\`\n${'a\n'.repeat(500_000)}`,
    fences: '```\n'.repeat(250_000),
    stars: 'a*'.repeat(500_000),
    brackets: '['.repeat(1_000_000),
    mails: 'a.'.repeat(500_000),
    images: '!['.repeat(500_000),
    tags: '<a '.repeat(300_000),
    comments: '<!--'.repeat(250_000),
    definitions: '[a]: b\n'.repeat(100_000),
    ticks: Array.from({ length: 1000 }, (_, i) => '`'.repeat(i)).join(' '),
    spaces: `${' '.repeat(1_000_000)}a`,
    breaks: '\n'.repeat(1_000_000),
    hidden: '\u202e'.repeat(1_000_000),
    'hidden apart': '\u202ea'.repeat(500_000),
    emphasis: `${'*a _b '.repeat(3000)}`.repeat(10),
    'mails of 8 K': `${'a.'.repeat(4000)}\n\n`.repeat(20),
  };
  for (const [name, text] of Object.entries(texts)) {
    const ms = took(() => parse(text), 200);
    assert.ok(ms < 200, `${name}: ${ms.toFixed(0)} ms`);
    const made = parse(text);
    const size = JSON.stringify(made).length;
    assert.ok(size < 3_500_000, `${name}: ${size} characters`);
    assert.ok(made.blocks.length <= 2000, name);
    assert.ok(deepest(made) < 120, name);
  }
});

function deepest(node: unknown): number {
  if (typeof node !== 'object' || node === null) return 0;
  return 1 + Math.max(0, ...Object.values(node).map(deepest));
}

test('nothing is lost behind the bounds', () => {
  const text = `${'word\n\n'.repeat(30_000)}end`;
  const { blocks, rest, isCut } = parse(text);
  assert.equal(blocks.length, 2000);
  assert.equal(rest, text.slice(2000 * 6));
  assert.equal(isCut, false);
  assert.equal(parse('a'.repeat(2_000_000)).isCut, true);
});

test('a text that grows ends as if it had come at once', () => {
  const text = [
    '# One\n\ntext that\ngoes on\n===\n\n1. a\n\n2. b\n   - c\n\n   d\n\n- e\n\n\n- f\n\n| a | b |\n|---|---|\n| c | d |\n\n',
    '```js\nlet a = 1;\n\nlet b;\n```\nafter\n\n> q\n> r\n\nlazy\n\n    code\n\n    more\n\n<div>\n\nx\n\n</div>\n\n',
    'a [b](https://c.example) 👩\u200d💻 end\n\n* * *\n\nHello\n- g\n\n\n-',
  ].join('');
  for (const step of [1, 2, 3, 7, 50]) {
    const parser = new Parser();
    for (let end = step; end < text.length; end += step) parser.grow(text.slice(0, end));
    assert.deepEqual(parser.grow(text), parse(text), `by ${step}`);
  }
});

test('blocks that stay the same are the same objects', () => {
  const parser = new Parser();
  const before = parser.grow('# a\n\nb\n\nc\n\nd').blocks;
  const after = parser.grow('# a\n\nb\n\nc\n\nd e\n\nf').blocks;
  assert.equal(before[0], after[0]);
  assert.equal(before[1], after[1]);
  assert.deepEqual(
    parser.grow('x').blocks.map((top) => top.block.t),
    ['paragraph'],
  );
});

test('writing is linear', () => {
  const piece = 'Some **words** with `code` and [a link](https://a.example/).\n\n';
  const ms = took(() => {
    const parser = new Parser();
    for (let i = 1; i <= 1500; i++) parser.grow(piece.repeat(i));
    assert.equal(parser.grow(piece.repeat(1500)).blocks.length, 1500);
  }, 2000);
  assert.ok(ms < 2000, `${ms.toFixed(0)} ms`);
});
