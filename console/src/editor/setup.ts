// CodeMirror with the console's colours. Languages are loaded when a file needs one.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import {
  bracketMatching,
  foldGutter,
  foldKeymap,
  HighlightStyle,
  indentOnInput,
  LanguageDescription,
  syntaxHighlighting,
} from '@codemirror/language';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import {
  drawSelection,
  dropCursor,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  rectangularSelection,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';

const theme = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--surface)', fontSize: '0.8125rem' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5', fontVariantLigatures: 'none' },
  '.cm-content': { caretColor: 'var(--accent)', padding: '8px 0' },
  '.cm-cursor, .cm-dropCursor': { borderLeftColor: 'var(--accent)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, ::selection': {
    backgroundColor: 'light-dark(#b5dfe0, #1f5558) !important',
  },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--text-3)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--hover)' },
  '.cm-activeLineGutter': { color: 'var(--text-2)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--press)', outline: '1px solid var(--line-strong)' },
  '.cm-specialChar': { color: 'var(--failed)' },
  '.cm-foldPlaceholder': { background: 'var(--press)', border: 'none', color: 'var(--text-2)' },
  '.cm-searchMatch': { backgroundColor: 'var(--sand-soft)', outline: '1px solid var(--sand)' },
  '.cm-searchMatch-selected': { backgroundColor: 'var(--accent-soft)', outline: '1px solid var(--accent)' },
  '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--text)' },
  '.cm-panels.cm-panels-bottom': { borderTop: '1px solid var(--line)' },
  '.cm-panel.cm-search': { padding: '6px 8px', fontFamily: 'var(--font)' },
  '.cm-textfield': {
    backgroundColor: 'var(--surface)',
    border: '1px solid var(--line-strong)',
    borderRadius: 'var(--r-1)',
    fontSize: '0.75rem',
  },
  '.cm-button': {
    backgroundImage: 'none',
    backgroundColor: 'var(--surface)',
    border: '1px solid var(--line-strong)',
    borderRadius: 'var(--r-1)',
    fontSize: '0.75rem',
  },
  '.cm-tooltip': { backgroundColor: 'var(--raised)', border: '1px solid var(--line)', color: 'var(--text)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--press)', color: 'var(--text)' },
  '.cm-changedLine': { backgroundColor: 'var(--added-bg) !important' },
  '.cm-deletedChunk, &.cm-merge-a .cm-changedLine': { backgroundColor: 'var(--removed-bg) !important' },
});

const colours = HighlightStyle.define([
  {
    tag: [tags.keyword, tags.controlKeyword, tags.operatorKeyword, tags.modifier, tags.definitionKeyword],
    color: 'var(--code-keyword)',
  },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.unit], color: 'var(--code-number)' },
  { tag: [tags.comment, tags.meta], color: 'var(--code-comment)' },
  {
    tag: [
      tags.function(tags.variableName),
      tags.function(tags.propertyName),
      tags.typeName,
      tags.className,
      tags.tagName,
      tags.attributeName,
    ],
    color: 'var(--code-name)',
  },
  { tag: [tags.heading, tags.strong], fontWeight: '600' },
  { tag: tags.emphasis, fontStyle: 'italic' },
  { tag: [tags.link, tags.url], color: 'var(--accent)' },
  { tag: tags.invalid, color: 'var(--failed)' },
]);

/** Everything but the language. */
export function basics(separator: string, label: string): Extension {
  return [
    EditorState.lineSeparator.of(separator),
    lineNumbers(),
    highlightActiveLineGutter(),
    highlightSpecialChars(),
    history(),
    foldGutter(),
    drawSelection(),
    dropCursor(),
    indentOnInput(),
    syntaxHighlighting(colours),
    bracketMatching(),
    closeBrackets(),
    autocompletion({ activateOnTyping: false }),
    rectangularSelection(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search(),
    keymap.of([
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...foldKeymap,
      ...completionKeymap,
    ]),
    tabKey(),
    EditorView.contentAttributes.of({ 'aria-label': label, spellcheck: 'false', autocorrect: 'off' }),
    theme,
  ];
}

/** For texts that are only read, in merges. */
export function reading(separator: string, label: string): Extension {
  return [
    EditorState.lineSeparator.of(separator),
    EditorState.readOnly.of(true),
    lineNumbers(),
    highlightSpecialChars(),
    syntaxHighlighting(colours),
    EditorView.contentAttributes.of({ 'aria-label': label }),
    theme,
  ];
}

/** Tab indents. Escape, then Tab leaves the editor (a key binding of CodeMirror's own would trap the focus). */
function tabKey(): Extension {
  let leaving = false;
  return [
    EditorView.domEventHandlers({
      keydown(event, view) {
        if (event.key === 'Tab' && leaving) {
          leaving = false;
          return false;
        }
        if (event.key !== 'Shift') leaving = event.key === 'Escape';
        if (event.key !== 'Tab') return false;
        const run = event.shiftKey ? indentWithTab.shift : indentWithTab.run;
        if (!run?.(view)) return false;
        event.preventDefault();
        return true;
      },
    }),
  ];
}

export const language = new Compartment();

/** The language of a file by its name, or nothing. */
export async function languageOf(name: string): Promise<Extension> {
  try {
    const { languages } = await import('@codemirror/language-data');
    return (await LanguageDescription.matchFilename(languages, name.slice(-255))?.load()) ?? [];
  } catch {
    // Without colours it can be edited, too.
    return [];
  }
}
