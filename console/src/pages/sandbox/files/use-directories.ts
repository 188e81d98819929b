// Listings of the directories in the tree. They are fetched again, one after the other, while somebody looks.
import { useQueries, useQueryClient } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useMemo } from 'react';
import { filesQuery } from '../../../api';
import { isWatched } from '../../../presence';
import { type Listing, shownDirectories } from './tree-model';

const EVERY_MS = 4000;

export interface Directories {
  listings: ReadonlyMap<string, Listing>;
  refresh: () => void;
}

/** `root` is absolute, or empty for the working directory (its listing says which that is). */
export function useDirectories(
  id: string,
  root: string,
  expanded: ReadonlySet<string>,
  hidden: boolean,
  enabled: boolean,
): Directories {
  const client = useQueryClient();
  const paths = useMemo(() => [root, ...[...expanded].filter((path) => path !== root)], [root, expanded]);
  const results = useQueries({
    queries: paths.map((path) => ({ ...filesQuery(id, path, hidden), enabled })),
  });
  const seen = results.map((result) => `${result.dataUpdatedAt}/${result.errorUpdatedAt}`).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: `seen` stands for the results
  const listings = useMemo(() => {
    const map = new Map<string, Listing>();
    paths.forEach((path, i) => {
      const { data, error } = results[i] ?? {};
      if (data || error) map.set(path, { data, error: data ? undefined : error });
    });
    return map;
  }, [paths, seen]);

  const shown = useEffectEvent(() => shownDirectories(root, listings, expanded));
  const fetchAgain = useEffectEvent(async (stopped: () => boolean) => {
    for (const path of shown()) {
      if (stopped()) return;
      const { queryKey } = filesQuery(id, path, hidden);
      await client.refetchQueries({ queryKey, exact: true }, { cancelRefetch: false });
    }
  });
  useEffect(() => {
    if (!enabled) return;
    let timer: ReturnType<typeof setTimeout>;
    let stop = false;
    const round = async () => {
      if (isWatched()) await fetchAgain(() => stop);
      if (!stop) timer = setTimeout(round, EVERY_MS);
    };
    timer = setTimeout(round, EVERY_MS);
    return () => {
      stop = true;
      clearTimeout(timer);
    };
  }, [enabled]);

  return { listings, refresh: () => void client.invalidateQueries({ queryKey: ['files', id] }) };
}
