// Text of machines: code, and the same act as a command and as an API call.
import { useState } from 'react';
import { Segmented } from './choice';
import { CopyButton } from './copy';

/** Shown as it is: no markup, no colours. */
export function CodeBlock({ text, label = 'Copy', wrap }: { text: string; label?: string; wrap?: boolean }) {
  return (
    <div className={wrap ? 'code wrap-lines' : 'code'}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls sideways must be reachable by keyboard */}
      <pre tabIndex={0}>{text}</pre>
      <CopyButton text={text} label={label} />
    </div>
  );
}

export interface Snippet {
  /** "CLI", "API", "Python". */
  label: string;
  text: string;
}

/** Use cli() and curl() of format/snippet.ts for the texts. */
export function Snippets({ snippets, label = 'The same as' }: { snippets: Snippet[]; label?: string }) {
  const [chosen, choose] = useState(snippets[0]?.label ?? '');
  const snippet = snippets.find((s) => s.label === chosen) ?? snippets[0];
  if (!snippet) return null;
  return (
    <div className="code">
      <header className="snippet-head">
        <Segmented
          size="sm"
          label={label}
          value={snippet.label}
          onChange={choose}
          options={snippets.map((s) => ({ id: s.label, label: s.label }))}
        />
        <CopyButton text={snippet.text} label={`Copy as ${snippet.label}`} />
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls sideways must be reachable by keyboard */}
      <pre tabIndex={0}>{snippet.text}</pre>
    </div>
  );
}
