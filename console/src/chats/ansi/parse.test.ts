import assert from 'node:assert/strict';
import { test } from 'node:test';
import { took } from '../took';
import { parseOutput } from './parse';
import { classesOf, PLAIN, styled } from './style';

const texts = (output: string) => parseOutput(output).lines.map((spans) => spans.map((span) => span.text).join(''));
const marked = (output: string) =>
  parseOutput(output).lines.map((spans) =>
    spans.map((span) => {
      const classes = classesOf(span.style).join(' ');
      return classes ? `<${classes}>${span.text}</>` : span.text;
    }),
  );

test('lines', () => {
  assert.deepEqual(texts('a\nb\n\nc'), ['a', 'b', '', 'c']);
  assert.deepEqual(texts('a\r\nb\r\n'), ['a', 'b']);
  assert.deepEqual(texts(''), []);
  assert.deepEqual(texts('\n'), ['']);
});

test('colours', () => {
  assert.deepEqual(marked('\x1b[31mred\x1b[0m \x1b[1;32mgreen\x1b[22m on\x1b[m off'), [
    ['<red>red</>', ' ', '<green bold>green</>', '<green> on</>', ' off'],
  ]);
  assert.deepEqual(marked('\x1b[2mdim\x1b[90m grey\x1b[39;22m\x1b[4mline\x1b[9mboth'), [
    ['<dim>dim</>', '<dim> grey</>', '<underline>line</>', '<both>both</>'],
  ]);
  assert.deepEqual(marked('\x1b[30;42m PASS \x1b[0m\x1b[7mx'), [['<on-green> PASS </>', '<on-white>x</>']]);
  assert.deepEqual(marked('\x1b[38;5;196ma\x1b[38;2;0;200;0mb\x1b[38:5:21mc\x1b[38;5;250md'), [
    ['<red>a</>', '<green>b</>', '<blue>c</>', 'd'],
  ]);
  assert.deepEqual(marked('\x9b31mred'), [['<red>red</>']]);
  assert.equal(styled(PLAIN, '>4;2'), PLAIN);
  assert.equal(styled(PLAIN, '38'), PLAIN);
  assert.equal(styled(PLAIN, '38;5;999'), PLAIN);
});

test('a style goes on over lines', () => {
  assert.deepEqual(marked('\x1b[31ma\nb'), [['<red>a</>'], ['<red>b</>']]);
});

test('returns, backspaces and erasing write over what was there', () => {
  assert.deepEqual(texts(' 10 %\r 55 %\r100 %\ndone'), ['100 %', 'done']);
  assert.deepEqual(texts('abcdef\rxy'), ['xycdef']);
  assert.deepEqual(texts('abcdef\r\x1b[Kxy'), ['xy']);
  assert.deepEqual(texts('abcdef\x1b[2K\rxy'), ['xy    ']);
  assert.deepEqual(texts('ab\b\bc'), ['cb']);
  assert.deepEqual(texts('|\b/\b-\b\\'), ['\\']);
  assert.deepEqual(texts('\b\b\ba'), ['a']);
  assert.deepEqual(marked('\x1b[31mabcd\r\x1b[32mxy'), [['<green>xy</>', '<red>cd</>']]);
});

test('other sequences are dropped', () => {
  assert.deepEqual(texts('a\x1b[2Jb\x1b[10;10Hc\x1b[?25ld\x1b(Be\x1b7f\x1bcg'), ['abcdefg']);
  assert.deepEqual(texts('\x1b]0;title\x07a\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\'), ['alink']);
  assert.deepEqual(texts('\x1bPq#0;2;0\x1b\\a\x1b_x\x1b\\b\x9dx\x9cc'), ['abc']);
  assert.deepEqual(texts('a\x00b\x07c\x0ed\x7fe'), ['abcde']);
});

test('hidden characters are seen', () => {
  assert.deepEqual(texts('a\u202eb\u200bc'), ['a·b·c']);
});

test('a sequence that was broken off hides nothing behind its line', () => {
  assert.deepEqual(texts('\x1b]0;title\nb'), ['', 'b']);
  assert.deepEqual(texts('\x1b[31\nb'), ['31', 'b']);
});

test('any beginning of an output can be read', () => {
  const output = 'a\x1b[1;31mb\x1b[0m\r\nc\x1b]0;x\x07d\x1b(Be\x1bPq\x1b\\f\x9b4mg\b\bh\n';
  for (let end = 0; end <= output.length; end++) {
    const shown = texts(output.slice(0, end)).join('\n');
    assert.ok(!shown.includes('\x1b') && !shown.includes('\x9b'), `${end}`);
  }
  // The beginning of a sequence is not shown while the rest is on its way.
  assert.deepEqual(texts('a\x1b'), ['a']);
  assert.deepEqual(texts('a\x1b['), ['a']);
  assert.deepEqual(texts('a\x1b[1;3'), ['a']);
});

test('the newest lines are kept', () => {
  const output = Array.from({ length: 5000 }, (_, i) => `line ${i}`).join('\n');
  const { lines, left, isCut } = parseOutput(output, 100);
  assert.equal(lines.length, 100);
  assert.equal(left, 4900);
  assert.equal(isCut, false);
  assert.equal(lines.at(-1)![0]!.text, 'line 4999');
  assert.equal(parseOutput('a\n'.repeat(1_000_000)).isCut, true);
});

test('hostile outputs are bounded', () => {
  for (const [name, output] of Object.entries({
    escapes: '\x1b'.repeat(1_000_000),
    open: '\x1b['.repeat(500_000),
    params: `\x1b[${'1;'.repeat(500_000)}m`,
    colours: Array.from({ length: 60_000 }, (_, i) => `\x1b[38;2;${i % 256};${(i * 7) % 256};9mx`).join(''),
    returns: '\ra'.repeat(500_000),
    'returns in colours': `${'\x1b[31ma\x1b[32mb'.repeat(5000)}${'\rx'.repeat(200_000)}`,
    backspaces: 'ab\b'.repeat(300_000),
    erasing: `${'\x1b[31ma\x1b[32mb'.repeat(5000)}${'\x1b[1K'.repeat(100_000)}`,
    title: `\x1b]0;${'x'.repeat(1_000_000)}`,
    titles: '\x1b]'.repeat(500_000),
    long: 'x'.repeat(1_000_000),
    lines: '\n'.repeat(1_000_000),
    nul: '\0'.repeat(1_000_000),
    bidi: 'a\u202e'.repeat(500_000),
  })) {
    const ms = took(() => parseOutput(output), 400);
    assert.ok(ms < 400, `${name}: ${ms.toFixed(0)} ms`);
    const { lines } = parseOutput(output);
    assert.ok(lines.length <= 2000, name);
    for (const line of lines) assert.ok(line.reduce((sum, span) => sum + span.text.length, 0) <= 16_384, name);
  }
});
