// ⌘K: finds pages, sandboxes, templates and every shortcut of the page, and runs them.
import { useQuery } from '@tanstack/react-query';
import { Command, Layers, MessageCirclePlus, Plus, Search } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import {
  Dialog as AriaDialog,
  Autocomplete,
  Header,
  Input,
  ListBox,
  ListBoxItem,
  ListBoxSection,
  Modal,
  ModalOverlay,
  SearchField,
} from 'react-aria-components';
import { useLocation } from 'wouter';
import { chatsQuery, listSandboxes, templatesQuery } from '../api';
import { stateOf, titleOf, wordOf } from '../chats/title';
import { sandboxName, shortId, statusOf } from '../format/sandbox';
import { navEntries } from '../pages';
import { useSession } from '../session';
import { useAllShortcuts } from '../shortcuts';
import { KeyHint, StateDot } from '../ui';
import { strings } from './strings';

interface Hit {
  id: string;
  label: string;
  icon: ReactNode;
  note?: ReactNode;
  run: () => void;
}

function useHits(text: string): { title: string; hits: Hit[] }[] {
  const [, navigate] = useLocation();
  const shortcuts = useAllShortcuts();
  const q = text.trim().toLowerCase();
  const found = useQuery({
    queryKey: ['sandboxes', { q }, 'palette'],
    queryFn: ({ signal }) => listSandboxes({ q }, { limit: 8, signal }),
    placeholderData: (old) => old,
  });
  const templates = useQuery(templatesQuery());
  const chats = useQuery(chatsQuery(q ? { q } : {}, 6));
  const has = (label: string) => !q || label.toLowerCase().includes(q);

  const pages = navEntries(useSession().permissions);
  const goTo: Hit[] = pages
    .filter((page) => has(page.nav.label))
    .map((page) => ({
      id: `page ${page.path}`,
      label: page.nav.label,
      icon: <page.nav.icon />,
      note: <KeyHint keys={`g ${page.nav.letter}`} />,
      run: () => navigate(page.path),
    }));
  const always: Hit[] = [
    {
      id: 'new chat',
      label: strings.newChat,
      icon: <MessageCirclePlus />,
      note: <KeyHint keys="n" />,
      run: () => navigate('/chats'),
    },
    {
      id: 'create',
      label: strings.create,
      icon: <Plus />,
      note: <KeyHint keys="c" />,
      run: () => navigate('/create'),
    },
  ];
  const acts = always.filter((hit) => has(hit.label));
  for (const s of shortcuts) {
    if (s.hidden || s.group === strings.goTo || s.group === strings.everywhere || !has(s.label)) continue;
    if (/^(j|k|x|enter|escape|\/|mod\+a)$/.test(s.keys)) continue;
    const run = () => s.run(new KeyboardEvent('keydown'));
    acts.push({ id: `do ${s.keys}`, label: s.label, icon: <Command />, note: <KeyHint keys={s.keys} />, run });
  }
  const sandboxes: Hit[] = (found.data?.items ?? [])
    .filter(
      (row) =>
        !q ||
        `${row.sandboxID} ${row.alias ?? ''} ${Object.values(row.metadata ?? {}).join(' ')}`.toLowerCase().includes(q),
    )
    .slice(0, 8)
    .map((row) => ({
      id: `sandbox ${row.sandboxID}`,
      label: sandboxName(row),
      icon: <StateDot state={statusOf(row).state} />,
      note: <span className="mono">{shortId(row.sandboxID)}</span>,
      run: () => navigate(`/sandboxes/${row.sandboxID}`),
    }));
  const named: Hit[] = (templates.data?.items ?? [])
    .map((template) => ({ template, name: template.aliases[0] ?? template.templateID }))
    .filter(({ name }) => q && has(name))
    .slice(0, 5)
    .map(({ template, name }) => ({
      id: `template ${template.templateID}`,
      label: name,
      icon: <Layers />,
      run: () => navigate(`/templates/${template.templateID}`),
    }));
  const talks: Hit[] = (chats.data?.chats ?? [])
    .filter((chat) => has(titleOf(chat)))
    .map((chat) => ({
      id: `chat ${chat.id}`,
      label: titleOf(chat),
      icon: <StateDot state={stateOf(chat)} />,
      note: wordOf(chat),
      run: () => navigate(`/chats/${chat.id}`),
    }));
  return [
    { title: strings.act, hits: acts },
    { title: strings.chats, hits: talks },
    { title: strings.sandboxes, hits: sandboxes },
    { title: strings.templates, hits: named },
    { title: strings.goTo, hits: goTo },
  ].filter((group) => group.hits.length > 0);
}

function PaletteBody({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const groups = useHits(text);
  const all = groups.flatMap((group) => group.hits);
  return (
    <Autocomplete inputValue={text} onInputChange={setText}>
      <SearchField aria-label={strings.search} className="q" autoFocus>
        <Search />
        <Input type="text" role="combobox" aria-expanded aria-haspopup="listbox" placeholder={strings.search} />
        <kbd>Esc</kbd>
      </SearchField>
      <ListBox
        aria-label={strings.search}
        className="menu"
        selectionMode="none"
        onAction={(key) => {
          onClose();
          all.find((hit) => hit.id === key)?.run();
        }}
        renderEmptyState={() => <div className="empty">{strings.noMatch}</div>}
      >
        {groups.map((group) => (
          <ListBoxSection key={group.title} id={group.title} className="menu-section">
            <Header className="head">{group.title}</Header>
            {group.hits.map((hit) => (
              <ListBoxItem key={hit.id} id={hit.id} textValue={hit.label}>
                {hit.icon}
                <span className="cut">{hit.label}</span>
                {hit.note && <span className="end meta">{hit.note}</span>}
              </ListBoxItem>
            ))}
          </ListBoxSection>
        ))}
      </ListBox>
      <footer className="only-wide">
        <span>
          <kbd>↑</kbd>
          <kbd>↓</kbd> {strings.move}
        </span>
        <span>
          <kbd>⏎</kbd> {strings.run}
        </span>
      </footer>
    </Autocomplete>
  );
}

export function Palette({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  return (
    <ModalOverlay isOpen={isOpen} onOpenChange={(open) => !open && onClose()} isDismissable className="scrim top">
      <Modal className="palette">
        <AriaDialog aria-label={strings.search}>
          <PaletteBody onClose={onClose} />
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}
