// Tags of a template: what they name, and how they are moved.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { assignTags, removeTags, type TagGroup, tagGroupsQuery } from '../../api';
import { toast } from '../../ui';
import { strings } from './strings';

export interface Tags {
  groups: readonly TagGroup[];
  /** Tags of each build, `default` first. */
  byBuild: ReadonlyMap<string, string[]>;
  error: unknown;
  move: (tag: string, buildID: string) => Promise<void>;
  remove: (tag: string) => Promise<void>;
}

export const shortBuild = (id: string): string => id.slice(0, 8);

export function useTags(templateID: string, name: string): Tags {
  const client = useQueryClient();
  const query = useQuery(tagGroupsQuery(templateID));
  const groups = [...(query.data?.tags ?? [])].sort(
    (a, b) => Number(b.tag === 'default') - Number(a.tag === 'default') || a.tag.localeCompare(b.tag),
  );
  const byBuild = new Map<string, string[]>();
  for (const { tag, assignments } of groups) {
    const build = assignments[0]?.buildId;
    if (build) byBuild.set(build, [...(byBuild.get(build) ?? []), tag]);
  }
  async function changed(): Promise<void> {
    await Promise.all([
      client.invalidateQueries({ queryKey: ['template', templateID] }),
      client.invalidateQueries({ queryKey: ['templates'] }),
    ]);
  }
  return {
    groups,
    byBuild,
    error: query.error,
    async move(tag, buildID) {
      await assignTags(`${name}:${buildID}`, [tag]);
      toast.done(strings.moved(tag, shortBuild(buildID)));
      await changed();
    },
    async remove(tag) {
      await removeTags(name, [tag]);
      toast.done(strings.removed(tag));
      await changed();
    },
  };
}
