// One call of a tool: what it is in a line, and everything about it when it is opened.
import {
  ChevronRight,
  Diff as DiffIcon,
  FileText,
  Folder,
  Globe,
  Lightbulb,
  type LucideIcon,
  MessageCircleQuestion,
  Pencil,
  Search,
  Terminal,
  Trash2,
  Wrench,
} from 'lucide-react';
import { type ReactNode, useEffect, useId, useMemo, useState } from 'react';
import { duration } from '../../format/time';
import { Button, StateDot } from '../../ui';
import { useActions } from '../actions';
import { Output } from '../ansi';
import { countsOf, diffOfCall, type FileDiff } from '../diff';
import { Counts, Diff } from '../diff/view';
import { argumentLine, argumentText, sentence, titleParts, visibleLine } from '../state/text';
import type { CallView } from '../state/types';
import { strings } from '../strings';
import styles from './tools.module.css';

const ICONS: Record<string, LucideIcon> = {
  sandbox_read_file: FileText,
  sandbox_write_file: Pencil,
  sandbox_delete_file: Trash2,
  sandbox_list_directory: Folder,
  sandbox_run_command: Terminal,
  sandbox_command: Terminal,
  sandbox_grep_files: Search,
  sandbox_find_files: Search,
  sandbox_apply_patch: DiffIcon,
  sandbox_find_replace: DiffIcon,
  sandbox_start_service: Globe,
  sandbox_service: Globe,
  ask_user: MessageCircleQuestion,
};

const COMMANDS = new Set(['sandbox_run_command', 'sandbox_command']);
/** Edits up to this many lines are seen without being opened. */
const SMALL_EDIT = 30;

export interface RowFrameProps {
  icon: ReactNode;
  verb: string;
  /** With the verb, its name. */
  object?: string;
  /** In the same line, where there is room. */
  aside?: string;
  end?: ReactNode;
  /** A button beside the row, outside of the one that opens it. */
  act?: ReactNode;
  look?: 'bad' | 'live';
  open: boolean;
  onOpen: (open: boolean) => void;
  children: ReactNode;
}

export function RowFrame({ icon, verb, object, aside, end, act, look, open, onOpen, children }: RowFrameProps) {
  const id = useId();
  return (
    <div className={styles.tool} data-look={look}>
      <div className={styles.head}>
        <button
          type="button"
          className={styles.toggle}
          aria-expanded={open}
          aria-controls={open ? id : undefined}
          aria-describedby={end ? `${id}-end` : undefined}
          onClick={() => onOpen(!open)}
        >
          <ChevronRight className="lucide s" data-chevron />
          {icon}
          <span className={styles.what}>{verb}</span> {object && <span className={`cut ${styles.arg}`}>{object}</span>}
          {aside && (
            <span className={`cut ${styles.arg}`} aria-hidden="true">
              {aside}
            </span>
          )}
        </button>
        <span className={styles.end} id={`${id}-end`}>
          {end}
        </span>
        {act}
      </div>
      {open && (
        <div id={id} className={styles.body}>
          {children}
        </div>
      )}
    </div>
  );
}

export function ToolRow({ call }: { call: CallView }) {
  const { stop } = useActions();
  const [choice, setChoice] = useState<boolean | null>(null);
  const files = useMemo(() => diffOfCall(call.name, call.arguments, call.data), [call.name, call.arguments, call.data]);
  const running = call.status === 'running';
  const bad = call.status === 'error';
  const small = call.name !== 'sandbox_write_file' && files !== null && sizeOf(files) <= SMALL_EDIT;
  const open = choice ?? (bad || (running && call.live !== '') || small);
  const { verb, object } = titleParts(call.title, call.name);
  const Icon = ICONS[call.name] ?? Wrench;
  const exit = exitOf(call);
  return (
    <RowFrame
      icon={running ? <StateDot state="creating" /> : <Icon className="lucide s" />}
      verb={verb}
      object={object}
      aside={object ? undefined : argumentLine(call.arguments)}
      look={bad ? 'bad' : running ? 'live' : undefined}
      open={open}
      onOpen={setChoice}
      act={
        running && COMMANDS.has(call.name) ? (
          <Button size="sm" className={styles.act} onPress={stop} aria-label={`${strings.stop} ${object || verb}`}>
            {strings.stop}
          </Button>
        ) : undefined
      }
      end={
        <>
          {files && call.status !== 'error' && <Counts {...countsOf(files)} />}
          {exit !== null && exit !== 0 && <span className={styles.exit}>{strings.exit(exit)}</span>}
          {bad && exit === null && call.error && (
            <span className={styles.exit}>{visibleLine(call.error.code, 40)}</span>
          )}
          {running ? <Elapsed /> : call.status === 'pending' ? strings.pending : <Took ms={call.durationMs} />}
        </>
      }
    >
      <Details call={call} files={files} />
    </RowFrame>
  );
}

function Details({ call, files }: { call: CallView; files: FileDiff[] | null }) {
  const running = call.status === 'running';
  const printed = call.live || call.output;
  const isCommand = COMMANDS.has(call.name);
  // A title is one line of it; what it leaves out must be seen somewhere.
  const showsArguments = !files && !(isCommand && isShort(call));
  return (
    <>
      {showsArguments && (
        <div className={styles.arguments}>
          <span className="label">{strings.arguments}</span>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
          <pre tabIndex={0} role="region" aria-label={strings.arguments}>
            {argumentText(call.arguments)}
          </pre>
        </div>
      )}
      {files && <Diff files={files} fold={SMALL_EDIT} />}
      {(!files || call.status === 'error') && printed !== '' && (
        <Output className={styles.output} text={printed} live={running} />
      )}
      {!files && printed === '' && call.status === 'success' && <p className={styles.none}>{strings.noOutput}</p>}
      {call.truncated && <p className={styles.tip}>{strings.cutOutput}</p>}
      {call.error && (
        <div className={styles.fault}>
          <span>{sentence(call.error.message)}</span>
          {call.error.hint && (
            <span className={styles.tip}>
              <Lightbulb className="lucide s" />
              {sentence(call.error.hint, 1000)}
            </span>
          )}
        </div>
      )}
    </>
  );
}

const sizeOf = (files: readonly FileDiff[]) => files.reduce((sum, file) => sum + file.lines.length, 0);

/** The title says the whole command. */
function isShort(call: CallView): boolean {
  const given = call.arguments as { command?: unknown } | null;
  if (typeof given !== 'object' || given === null || typeof given.command !== 'string') return false;
  return Object.keys(given).length === 1 && call.title.endsWith(given.command);
}

function exitOf(call: CallView): number | null {
  const code = (call.data as { exitCode?: unknown } | null)?.exitCode;
  return typeof code === 'number' ? code : null;
}

export function Took({ ms }: { ms: number | null }) {
  return ms === null ? null : <span>{duration(ms < 1000 ? ms / 1000 : Math.round(ms / 100) / 10)}</span>;
}

/** Since it was seen to run. */
function Elapsed() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const began = Date.now();
    const timer = setInterval(() => setSeconds(Math.floor((Date.now() - began) / 1000)), 1000);
    return () => clearInterval(timer);
  }, []);
  return <span>{duration(seconds < 1 ? 1 : seconds)}</span>;
}
