// Ids of keys and people as names.
import { useQuery } from '@tanstack/react-query';
import { useCallback } from 'react';
import { keysQuery } from '../../api';
import { plainName } from '../../format/plain';
import { shortId } from '../../format/sandbox';
import { useSession } from '../../session';
import { strings } from './strings';

/** "you", "key ci", "a person"; what is not known is its id, shortened. */
export function useNames(): (id: string) => string {
  const { user } = useSession();
  const { data: keys } = useQuery({ ...keysQuery(), staleTime: 60_000 });
  return useCallback(
    (id: string) => {
      if (id === user.id) return strings.who.you;
      if (id.startsWith('usr_')) return strings.who.person(shortId(id));
      const key = keys?.find((one) => one.id === id);
      return strings.who.key(key ? plainName(key.name, 60) : shortId(plainName(id, 40)));
    },
    [user.id, keys],
  );
}
