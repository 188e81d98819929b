// One sandbox: its header and its tabs. Each tab has an address; a sandbox that ended keeps its page.
import { TriangleAlert } from 'lucide-react';
import { type ReactNode, Suspense, useEffect } from 'react';
import { Redirect, useLocation, useParams, useSearchParams } from 'wouter';
import type { SandboxFull } from '../../api';
import { plainName } from '../../format/plain';
import { shortId } from '../../format/sandbox';
import { lazyPart } from '../../lazy-part';
import { useShortcuts } from '../../shortcuts';
import { ErrorBanner, Loading, Page, PageHead, Skeleton, SkeletonRows, StateBadge, Tabs } from '../../ui';
import { Header } from './header';
import { nameOf } from './name';
import Overview from './overview';
import { shownService } from './ports/shown';
import styles from './sandbox.module.css';
import { strings } from './strings';
import type { TabProps } from './tab';
import { Unknown } from './unknown';
import { useNames } from './use-names';
import { useSandbox } from './use-sandbox';
import { reasonWords } from './words/event';

const Terminal = lazyPart(() => import('./terminal'));
const Files = lazyPart(() => import('./files'));
const Logs = lazyPart(() => import('./logs'));
const Metrics = lazyPart(() => import('./metrics'));
const Usage = lazyPart(() => import('./usage'));
const Ports = lazyPart(() => import('./ports'));
const Snapshots = lazyPart(() => import('./snapshots'));
const Events = lazyPart(() => import('./events'));
const Gone = lazyPart(
  () => import('./gone'),
  (module) => module.Gone,
);

interface TabEntry {
  /** In the address; the first tab has none. */
  id: string;
  label: string;
  /** As high as the window, with its own scrolling inside: always, or as the query says. */
  fill?: boolean | ((params: URLSearchParams) => boolean);
  render: (props: TabProps) => ReactNode;
}

const TABS: readonly TabEntry[] = [
  { id: '', label: strings.tabs.overview, render: (props) => <Overview {...props} /> },
  { id: 'terminal', label: strings.tabs.terminal, fill: true, render: (props) => <Terminal {...props} /> },
  { id: 'files', label: strings.tabs.files, fill: true, render: (props) => <Files {...props} /> },
  { id: 'logs', label: strings.tabs.logs, fill: true, render: (props) => <Logs {...props} /> },
  { id: 'metrics', label: strings.tabs.metrics, render: (props) => <Metrics {...props} /> },
  {
    id: 'ports',
    label: strings.tabs.ports,
    fill: (params) => shownService(params) !== null,
    render: (props) => <Ports {...props} />,
  },
  { id: 'snapshots', label: strings.tabs.snapshots, render: (props) => <Snapshots {...props} /> },
  { id: 'usage', label: strings.tabs.usage, render: (props) => <Usage {...props} /> },
  { id: 'events', label: strings.tabs.events, render: (props) => <Events {...props} /> },
];

const pathOf = (id: string, tab: string) => `/sandboxes/${encodeURIComponent(id)}${tab && `/${tab}`}`;

export default function SandboxPage() {
  const { id = '', tab = '' } = useParams<{ id: string; tab?: string }>();
  const { known, retry } = useSandbox(id);
  const entry = TABS.find((one) => one.id === tab);
  const creating = known.kind === 'creating';
  useEffect(() => {
    if (!creating) return;
    const timer = setInterval(retry, 1000);
    return () => clearInterval(timer);
  });
  if (!entry) return <Redirect to={pathOf(id, '')} replace />;
  const short = shortId(plainName(id, 40));
  switch (known.kind) {
    case 'open':
      return <Open key={id} sandbox={known.sandbox} error={known.error} entry={entry} onRetry={retry} />;
    case 'gone':
      return (
        <Suspense fallback={<Waiting title={short} />}>
          <Gone key={id} sandbox={known.sandbox} />
        </Suspense>
      );
    case 'unknown':
      return <Unknown key={id} id={id} />;
    case 'creating':
      return (
        <Page title={short}>
          <PageHead title={short}>
            <StateBadge state="creating" word={strings.creating} />
          </PageHead>
        </Page>
      );
    case 'error':
      return (
        <Page title={short}>
          <PageHead title={short} crumbs={[{ label: strings.sandboxes, href: '/sandboxes' }]} />
          <ErrorBanner error={known.error} onRetry={retry} />
        </Page>
      );
    default:
      return <Waiting title={short} />;
  }
}

interface OpenProps {
  sandbox: SandboxFull;
  error: unknown;
  entry: TabEntry;
  onRetry: () => void;
}

function Open({ sandbox, error, entry, onRetry }: OpenProps) {
  const id = sandbox.sandboxID;
  const [, navigate] = useLocation();
  useShortcuts(
    TABS.map((one, i) => ({
      keys: String(i + 1),
      label: one.label,
      group: strings.tabList,
      run: () => navigate(pathOf(id, one.id)),
    })),
  );
  const [params] = useSearchParams();
  const fill = typeof entry.fill === 'function' ? entry.fill(params) : entry.fill;
  const content = entry.render({ sandbox });
  return (
    <Page title={nameOf(sandbox)} fill={fill}>
      <Header sandbox={sandbox} error={error} onRetry={onRetry} />
      {sandbox.phase === 'failed' && <Failed sandbox={sandbox} />}
      <Tabs
        label={strings.tabList}
        tabs={TABS.map((one) => ({ href: pathOf(id, one.id), label: one.label, selected: one === entry }))}
      />
      <Suspense fallback={<SkeletonRows />}>
        <div className={fill ? 'grow' : styles.content}>{content}</div>
      </Suspense>
    </Page>
  );
}

/** Why it failed and what is kept; Recover is in the header. */
function Failed({ sandbox }: { sandbox: SandboxFull }) {
  const name = useNames();
  const reason = reasonWords(sandbox.reason, name);
  return (
    <div className="banner" data-state="failed" role="status">
      <TriangleAlert />
      <div className="grow">
        <b>{reason ? strings.failedBanner(reason) : strings.failedPlain}</b> {strings.failedKept}
      </div>
    </div>
  );
}

function Waiting({ title }: { title: string }) {
  return (
    <Page title={title}>
      <Loading>
        <div className={styles.panel}>
          <Skeleton width={220} height={16} />
          <Skeleton width="46%" />
          <SkeletonRows />
        </div>
      </Loading>
    </Page>
  );
}
