// "API" and "CLI" in a page's head: what the page shows, as a call and as a command.
import { Code, Terminal } from 'lucide-react';
import { Dialog as AriaDialog, DialogTrigger, Popover } from 'react-aria-components';
import { Button } from './button';
import { CodeBlock } from './code';

function One({ word, icon, text }: { word: string; icon: React.ReactNode; text: string }) {
  return (
    <DialogTrigger>
      <Button>
        {icon}
        {word}
      </Button>
      <Popover placement="bottom end" offset={4} className="popover">
        <AriaDialog className="menu snippet-pop" aria-label={`As ${word}`}>
          <CodeBlock text={text} label={`Copy as ${word}`} />
        </AriaDialog>
      </Popover>
    </DialogTrigger>
  );
}

export function SnippetMenu({ api, cli }: { api: string; cli: string }) {
  return (
    <span className="group only-wide">
      <One word="API" icon={<Code />} text={api} />
      <One word="CLI" icon={<Terminal />} text={cli} />
    </span>
  );
}
