// The pane beside a conversation: a service, files, a terminal, an artifact, or what was changed. It fills what it is in.
import { Diff as DiffIcon, FileText, Folder, Globe, PanelRightClose, SquareTerminal } from 'lucide-react';
import { Suspense } from 'react';
import type { Attachment, Chat, Service } from '../../api';
import { plainName } from '../../format/plain';
import { serviceStatus } from '../../format/service';
import type { PageShot } from '../../services/pane';
import { ServicePane } from '../../services/pane';
import { IconButton, Segmented, Select, StateDot } from '../../ui';
import type { FileDiff } from '../diff';
import { countsOf } from '../diff';
import { Counts, Diff } from '../diff/view';
import { Artifact } from './artifact';
import { Artifacts } from './artifacts';
import { Computer, Empty } from './computer';
import type { PaneKind } from './kinds';
import styles from './panes.module.css';
import { strings } from './strings';

export { loadChatPane, PANE_KINDS, type PaneKind, type PaneState, storeChatPane } from './kinds';

export interface ChatPaneProps {
  chat: Pick<Chat, 'id' | 'sandboxId' | 'sandboxes'>;
  kind: PaneKind;
  /** Which service or which file, by its id; null: the first service, or the list of files. */
  target: string | null;
  /** Also called with another target of the same kind. */
  onKind: (kind: PaneKind, target: string | null) => void;
  onClose: () => void;
  /** Services of the chat's sandboxes. Each has a place in the switch. */
  services: readonly Service[];
  /** Files of the chat, in the order in which they came. */
  attachments: readonly Attachment[];
  /** What the chat's calls changed, in order; see `diffOfCall`. */
  changes?: readonly FileDiff[];
  /** The sandbox whose files and terminals are shown, by its name in the chat; `main` if omitted. */
  sandbox?: string;
  onSandbox?: (name: string) => void;
  /** Takes a screenshot of a region of a service's page. */
  onCapture?: (shot: PageShot) => void;
}

export function ChatPane(props: ChatPaneProps) {
  const { chat, kind, sandbox = 'main', onSandbox, onClose } = props;
  const isComputer = kind === 'files' || kind === 'terminal';
  return (
    <div className={styles.root}>
      <div className={styles.bar}>
        <div className={styles.switch}>
          <Switch {...props} />
        </div>
        {isComputer && onSandbox && chat.sandboxes.length > 1 && (
          <Select
            label={strings.sandbox}
            hideLabel
            className={styles.which}
            value={sandbox}
            onChange={onSandbox}
            options={chat.sandboxes.map((one) => ({ id: one.name, label: plainName(one.name, 40) }))}
          />
        )}
        <IconButton size="sm" label={strings.hide} onPress={onClose}>
          <PanelRightClose />
        </IconButton>
      </div>
      <div className={styles.body}>
        <Body {...props} />
      </div>
    </div>
  );
}

/** Ids of the switch: a kind, or `service:ID`. */
function Switch({ kind, target, onKind, services, changes = [] }: ChatPaneProps) {
  const shown = serviceOf(services, target);
  const places = services.length > 0 ? services : [null];
  return (
    <Segmented
      size="sm"
      label={strings.shown}
      value={kind === 'service' ? `service:${shown?.id ?? ''}` : kind}
      onChange={(id: string) => {
        const [next, of] = id.split(':');
        onKind(next as PaneKind, of || null);
      }}
      options={[
        ...places.map((service) => ({
          id: `service:${service?.id ?? ''}`,
          label: service ? (
            <>
              <StateDot state={serviceStatus(service).state} />
              <span className={styles.name}>{plainName(service.name, 40)}</span>
              <span className="sr">{strings.kinds.service}</span>
            </>
          ) : (
            <Word icon={<Globe className="lucide s" />} text={strings.kinds.service} />
          ),
        })),
        { id: 'files', label: <Word icon={<Folder className="lucide s" />} text={strings.kinds.files} /> },
        {
          id: 'terminal',
          label: <Word icon={<SquareTerminal className="lucide s" />} text={strings.kinds.terminal} />,
        },
        { id: 'artifact', label: <Word icon={<FileText className="lucide s" />} text={strings.kinds.artifact} /> },
        ...(changes.length > 0 || kind === 'diff'
          ? [{ id: 'diff', label: <Word icon={<DiffIcon className="lucide s" />} text={strings.kinds.diff} /> }]
          : []),
      ]}
    />
  );
}

function Word({ icon, text }: { icon: React.ReactNode; text: string }) {
  return (
    <>
      <span aria-hidden="true" className={styles.icon}>
        {icon}
      </span>
      <span>{text}</span>
    </>
  );
}

const serviceOf = (services: readonly Service[], id: string | null): Service | undefined =>
  services.find((service) => service.id === id) ?? services[0];

function Body({ chat, kind, target, onKind, services, attachments, changes = [], sandbox, onCapture }: ChatPaneProps) {
  switch (kind) {
    case 'service': {
      const service = serviceOf(services, target);
      if (!service) return <Empty kind="service" title={strings.noService} text={strings.noServiceText} />;
      return (
        <Suspense fallback={null}>
          <ServicePane serviceId={service.id} onCapture={onCapture} />
        </Suspense>
      );
    }
    case 'files':
    case 'terminal': {
      const named = chat.sandboxes.find((one) => one.name === (sandbox ?? 'main'))?.sandboxId;
      const id = named ?? chat.sandboxId;
      if (!id) return <Empty kind={kind} title={strings.noSandbox} text={strings.noSandboxText} />;
      return <Computer key={id} sandboxId={id} kind={kind} />;
    }
    case 'artifact': {
      const file = attachments.find((one) => one.id === target);
      if (file) return <Artifact file={file} onBack={() => onKind('artifact', null)} />;
      return <Artifacts files={attachments} onOpen={(id) => onKind('artifact', id)} />;
    }
    case 'diff':
      return <Changes files={changes} />;
  }
}

function Changes({ files }: { files: readonly FileDiff[] }) {
  if (files.length === 0) return <Empty kind="diff" title={strings.noDiff} text={strings.noDiffText} />;
  return (
    <section className={styles.artifact} aria-label={strings.region.diff}>
      <header className={styles.head}>
        <span className="meta num">{strings.diffCount(files.length)}</span>
        <span className="grow" />
        <Counts {...countsOf(files)} />
      </header>
      <div className={styles.changes} data-scroller>
        <Diff files={files} names />
      </div>
    </section>
  );
}
