import { Copy, Download, Pause, Play, X } from 'lucide-react';
import { useMemo, useRef, useState } from 'react';
import { plain } from '../../../format/plain';
import { count } from '../../../format/size';
import { cli, curl } from '../../../format/snippet';
import { utc } from '../../../format/time';
import { useShortcuts } from '../../../shortcuts';
import {
  Button,
  CopyButton,
  copyText,
  DataList,
  ErrorBanner,
  FilterBar,
  FilterMenu,
  FilterSearch,
  IconButton,
  NoMatch,
  SkeletonRows,
  SnippetMenu,
  toast,
  useFilters,
} from '../../../ui';
import { strings } from '../strings';
import type { TabProps } from '../tab';
import { useEndWatch } from '../tab-query';
import { asText, filterLines, LEVELS, type Line, type Outcome, outcomes } from './lines';
import { LineList, Result } from './list';
import styles from './logs.module.css';
import { type Log, MOST, useLog, wholeLog } from './use-log';

const words = strings.logs;
const MOST_IN_FILE = 200_000;
const NAMES = ['level', 'from', 'q'];
const LEVEL_OPTIONS = LEVELS.slice(1).map((id) => ({ id, label: words.levels[id] }));
const SOURCES = Object.entries(words.sources).map(([id, label]) => ({ id, label }));

export default function Logs({ sandbox }: TabProps) {
  const id = sandbox.sandboxID;
  const runs = (sandbox.phase || sandbox.state) === 'running';
  const log = useLog(id, runs);
  const filters = useFilters(NAMES);
  const [follow, setFollow] = useState(true);
  const [chosen, choose] = useState<string | null>(null);
  const ended = useEndWatch(id, log.error);
  const filter = { level: filters.get('level'), source: filters.get('from'), text: filters.get('q') };
  const { level, source, text } = filter;
  const shown = useMemo(() => filterLines(log.lines, { level, source, text }), [log.lines, level, source, text]);
  const results = useMemo(() => outcomes(log.lines), [log.lines]);
  const line = chosen === null ? undefined : shown.find((one) => one.key === chosen);
  // The newest line when following stopped: what came since is counted.
  const seen = useRef(0);
  if (follow) seen.current = shown.at(-1)?.at ?? 0;
  const missed = follow ? 0 : shown.length - 1 - shown.findLastIndex((one) => one.at <= seen.current);

  useShortcuts([
    { keys: 'w', label: follow ? words.pause : words.follow, group: words.label, run: () => setFollow(!follow) },
  ]);

  return (
    <div className={styles.box}>
      <FilterBar end={words.lines(count(shown.length), count(log.lines.length))}>
        <FilterSearch label={words.search} value={filter.text} onChange={(value) => filters.set('q', value)} />
        <FilterMenu
          label={words.level}
          value={filter.level}
          onChange={(value) => filters.set('level', value)}
          options={LEVEL_OPTIONS}
        />
        <FilterMenu
          label={words.from}
          value={filter.source}
          onChange={(value) => filters.set('from', value)}
          options={SOURCES}
        />
        <Button onPress={() => setFollow(!follow)} aria-pressed={follow}>
          {follow ? <Pause /> : <Play />}
          {follow ? words.pause : words.follow}
        </Button>
        <Tools id={id} shown={shown} filter={filter} />
        <SnippetMenu api={curl('GET', `/v2/sandboxes/${id}/logs?direction=backward`)} cli={cli('logs', id, '-f')} />
      </FilterBar>
      {Boolean(log.error) && !ended && !log.loaded && <ErrorBanner error={log.error} onRetry={log.retry} />}
      {!log.loaded ? (
        !log.error && <SkeletonRows rows={8} />
      ) : (
        <div className={styles.frame}>
          {shown.length === 0 && log.begun ? (
            filters.active > 0 ? (
              <NoMatch onClear={filters.clear} />
            ) : (
              <div className="empty">{words.empty}</div>
            )
          ) : (
            <LineList
              lines={shown}
              outcomes={results}
              follow={follow}
              onFollow={setFollow}
              onTop={() => !log.begun && log.older()}
              chosen={chosen}
              onChoose={choose}
              head={<Head log={log} stuck={shown.length === 0} />}
            />
          )}
          {!follow && (
            <span className={styles.toEnd}>
              <Button size="sm" onPress={() => setFollow(true)}>
                {missed > 0 ? words.newer(count(missed)) : words.toEnd}
              </Button>
            </span>
          )}
          {line && <Details line={line} outcome={results.get(line.key)} onClose={() => choose(null)} />}
        </div>
      )}
    </div>
  );
}

/** What stands above the first line. */
function Head({ log, stuck }: { log: Log; stuck: boolean }) {
  if (log.begun) return <p className={styles.head}>{words.begin}</p>;
  if (log.full) return <p className={styles.head}>{words.full(count(MOST))}</p>;
  return (
    <p className={styles.head}>
      {log.loadingOlder ? (
        words.older
      ) : (
        <Button size="sm" look={stuck ? 'plain' : 'quiet'} onPress={log.older}>
          {words.further}
        </Button>
      )}
    </p>
  );
}

interface ToolsProps {
  id: string;
  shown: readonly Line[];
  filter: Parameters<typeof filterLines>[1];
}

function Tools({ id, shown, filter }: ToolsProps) {
  const [busy, setBusy] = useState(false);
  async function copy(): Promise<void> {
    await copyText(asText(shown));
    toast.done(words.copied(count(shown.length)));
  }
  async function download(): Promise<void> {
    setBusy(true);
    try {
      const lines = filterLines(await wholeLog(id, MOST_IN_FILE, new AbortController().signal), filter);
      const address = URL.createObjectURL(new Blob([asText(lines)], { type: 'text/plain' }));
      const link = document.createElement('a');
      link.href = address;
      link.download = `${id}.log`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (error) {
      toast.failed(words.download, error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <>
      <IconButton label={words.copy} onPress={() => void copy()} isDisabled={shown.length === 0}>
        <Copy />
      </IconButton>
      <IconButton label={busy ? words.downloading : words.download} onPress={() => void download()} isPending={busy}>
        <Download />
      </IconButton>
    </>
  );
}

function Details({ line, outcome, onClose }: { line: Line; outcome: Outcome | undefined; onClose: () => void }) {
  const whole = plain(line.entry.message, 20_000);
  const fields = Object.entries(line.entry.fields ?? {}).slice(0, 20);
  return (
    <aside className={styles.details} aria-label={words.details}>
      <header>
        <b>{words.details}</b>
        {outcome && <Result outcome={outcome} />}
        <span className="grow" />
        <CopyButton text={whole} />
        <IconButton label={words.close} size="sm" onPress={onClose}>
          <X />
        </IconButton>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0}>{whole}</pre>
      <DataList
        items={[
          [words.when, utc(line.timestamp)],
          [words.levelWord, line.level],
          ...fields.map(([name, value]): [string, string] => [plain(name, 60), plain(value, 400)]),
        ]}
      />
    </aside>
  );
}
