// Acts on one sandbox and on many: what is under way, what failed, and the news about it.
import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import type { SandboxRow } from '../../api';
import { live } from '../../live';
import { toast } from '../../ui';
import type { Act } from './acts';
import { perform, waitFor } from './perform';
import { type Failure, runAll } from './run-all';
import { strings } from './strings';
import { nameOf } from './words';

const AT_ONCE = 4;

export interface BulkRun {
  act: Act;
  total: number;
  ended: number;
  failed: number;
}

export interface BulkSummary {
  act: Act;
  total: number;
  done: number;
  failed: Failure<SandboxRow>[];
  left: SandboxRow[];
}

export function useActs() {
  const client = useQueryClient();
  const [, navigate] = useLocation();
  const [busy, setBusy] = useState<ReadonlyMap<string, Act>>(new Map());
  const [bulk, setBulk] = useState<BulkRun | null>(null);
  const [summary, setSummary] = useState<BulkSummary | null>(null);
  const stop = useRef<AbortController | null>(null);

  /** The live socket tells what changed; without it, the list is fetched again. */
  const refresh = useCallback(() => {
    if (live.state !== 'connected') void client.invalidateQueries({ queryKey: ['sandboxes'] });
  }, [client]);

  const mark = useCallback((id: string, act: Act | null) => {
    setBusy((old) => {
      const next = new Map(old);
      if (act) next.set(id, act);
      else next.delete(id);
      return next;
    });
  }, []);

  /** Throws what went wrong. */
  const one = useCallback(
    async (act: Act, row: SandboxRow) => {
      const name = nameOf(row);
      mark(row.sandboxID, act);
      try {
        const made = await perform(act, row);
        if (act === 'fork' && made) {
          const action = { label: strings.open, run: () => navigate(`/sandboxes/${made}`) };
          toast.done(strings.forkOf(name), { action });
        } else if (act === 'snapshot' && made) {
          const path = `/create?step=config&template=${encodeURIComponent(made)}`;
          toast.done(strings.snapshotOf(name), {
            text: made,
            action: { label: strings.newFromSnapshot, run: () => navigate(path) },
          });
        } else {
          toast.done(strings.done(act, name));
        }
      } finally {
        mark(row.sandboxID, null);
        refresh();
      }
    },
    [mark, navigate, refresh],
  );

  /** Says what went wrong. */
  const run = useCallback(
    (act: Act, row: SandboxRow) => {
      void one(act, row).catch((error) => toast.failed(strings.failed(act, nameOf(row)), error));
    },
    [one],
  );

  const runMany = useCallback(
    async (act: Act, rows: readonly SandboxRow[]) => {
      if (stop.current || rows.length === 0) return;
      const controller = new AbortController();
      stop.current = controller;
      setSummary(null);
      setBulk({ act, total: rows.length, ended: 0, failed: 0 });
      const outcome = await runAll(rows, (row) => perform(act, row), {
        most: AT_ONCE,
        signal: controller.signal,
        waitFor,
        onProgress: (ended, failed) => setBulk({ act, total: rows.length, ended, failed }),
      });
      stop.current = null;
      setBulk(null);
      refresh();
      if (outcome.failed.length === 0 && outcome.left.length === 0) {
        toast.done(strings.done(act, strings.many(outcome.done.length)));
      } else {
        setSummary({ act, total: rows.length, ...outcome, done: outcome.done.length });
      }
    },
    [refresh],
  );

  return {
    busy,
    bulk,
    summary,
    one,
    run,
    runMany,
    stop: () => stop.current?.abort(),
    closeSummary: () => setSummary(null),
  };
}
