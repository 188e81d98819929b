// Creates what was chosen: pulls the image if there is one, waits for the template, sends the files, starts.
import { useCallback, useEffect, useRef, useState } from 'react';
import {
  type BuildLine,
  cancelBuild,
  createSandbox,
  isApiError,
  type NewSandbox,
  requestBuild,
  type Sandbox,
  startBuild,
} from '../../api';
import { bytes } from '../../format/size';
import { BuildFailed, followBuild } from './follow';
import { templateNameOf } from './image-name';
import { strings } from './strings';
import { createWithFiles } from './with-files';

export type PhaseId = keyof typeof strings.run.phases;

export interface Phase {
  id: PhaseId;
  state: 'active' | 'done' | 'failed';
  startedAt: number;
  seconds: number | null;
  detail: string;
}

export interface Run {
  name: string;
  phases: Phase[];
  log: BuildLine[];
  error: unknown;
  /** A template that was built on the way, and stays. */
  built: string | null;
}

export interface Order {
  name: string;
  image: string | null;
  user: string;
  /** Read when it is needed, and forgotten then. */
  takePassword: () => string;
  /** The body for a template. */
  body: (templateID: string) => NewSandbox;
  template: string;
  files: readonly File[];
}

const MOST_LINES = 500;
const WAIT_MS = 1000;

export function useCreate() {
  const [run, setRun] = useState<Run | null>(null);
  const stop = useRef<AbortController | null>(null);
  const built = useRef<{ image: string; template: string } | null>(null);
  const asked = useRef<{ text: string; key: string } | null>(null);
  useEffect(() => () => stop.current?.abort(), []);

  const begin = useCallback((id: PhaseId) => {
    const now = performance.now();
    setRun((old) => {
      if (!old) return old;
      const phases = old.phases.map((one) =>
        one.state === 'active' ? { ...one, state: 'done' as const, seconds: (now - one.startedAt) / 1000 } : one,
      );
      return { ...old, phases: [...phases, { id, state: 'active', startedAt: now, seconds: null, detail: '' }] };
    });
  }, []);
  const detail = useCallback((text: string) => {
    setRun((old) => {
      const last = old?.phases.at(-1);
      return old && last ? { ...old, phases: [...old.phases.slice(0, -1), { ...last, detail: text }] } : old;
    });
  }, []);

  const build = useCallback(
    async (image: string, order: Order, signal: AbortSignal): Promise<string> => {
      if (built.current?.image === image) return built.current.template;
      begin('request');
      const password = order.takePassword();
      const login = order.user
        ? { fromImageRegistry: { type: 'registry' as const, username: order.user, password } }
        : {};
      const made = await requestBuild({ name: templateNameOf(image) });
      try {
        begin('pull');
        await startBuild(made.templateID, made.buildID, { dockerfile: `FROM ${image}\n`, ...login });
        const onLines = (lines: BuildLine[]) => {
          setRun((old) => old && { ...old, log: [...old.log, ...lines].slice(-MOST_LINES) });
          const last = lines.at(-1)?.message;
          if (last) detail(last);
        };
        await followBuild(made.templateID, made.buildID, onLines, signal);
      } catch (error) {
        // One that has not ended would wait or go on for nobody.
        if (!(error instanceof BuildFailed)) void cancelBuild(made.templateID, made.buildID).catch(() => {});
        throw error;
      }
      const template = `${made.aliases[0] ?? made.templateID}:${made.buildID}`;
      built.current = { image, template };
      setRun((old) => old && { ...old, built: made.aliases[0] ?? made.templateID });
      return template;
    },
    [begin, detail],
  );

  const create = useCallback(
    async (body: NewSandbox, files: readonly File[], signal: AbortSignal): Promise<Sandbox> => {
      const text = JSON.stringify(body);
      // A repetition after a lost answer gives the same sandbox.
      if (asked.current?.text !== text)
        asked.current = { text, key: crypto.randomUUID?.() ?? String(Math.random()).slice(2) };
      const { key } = asked.current;
      let isWaiting = false;
      for (;;) {
        try {
          if (!isWaiting) begin(files.length > 0 ? 'send' : 'start');
          if (files.length === 0) return await createSandbox(body, key);
          let isSent = false;
          return await createWithFiles(
            body,
            files,
            (sent, total) => {
              detail(strings.run.sent(bytes(sent), bytes(total)));
              if (sent >= total && !isSent) begin('start');
              isSent = sent >= total;
            },
            signal,
          );
        } catch (error) {
          if (!isApiError(error, 'template_not_ready')) throw error;
          if (!isWaiting) begin('wait');
          isWaiting = true;
          detail(strings.run.waitText);
          await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
          signal.throwIfAborted();
        }
      }
    },
    [begin, detail],
  );

  /** Gives the sandbox and the seconds that it took; throws what went wrong, which is also in `run`. */
  const start = useCallback(
    async (order: Order): Promise<{ sandbox: Sandbox; seconds: number }> => {
      const controller = new AbortController();
      stop.current?.abort();
      stop.current = controller;
      const from = performance.now();
      setRun({ name: order.name, phases: [], log: [], error: null, built: null });
      try {
        const template = order.image ? await build(order.image, order, controller.signal) : order.template;
        const sandbox = await create(order.body(template), order.files, controller.signal);
        asked.current = null;
        return { sandbox, seconds: (performance.now() - from) / 1000 };
      } catch (error) {
        const now = performance.now();
        setRun(
          (old) =>
            old && {
              ...old,
              error,
              phases: old.phases.map((one) =>
                one.state === 'active' ? { ...one, state: 'failed', seconds: (now - one.startedAt) / 1000 } : one,
              ),
            },
        );
        throw error;
      }
    },
    [build, create],
  );

  return {
    run,
    start,
    cancel: () => stop.current?.abort(new Error(strings.run.cancelled)),
    close: () => setRun(null),
  };
}
