// Where a sandbox may connect, in words.
import type { NetworkStatus } from '../../../api';
import { plainName } from '../../../format/plain';

const EVERYWHERE = ['0.0.0.0/0', '::/0'];

function list(names: readonly string[], most = 6): string {
  const shown = names.slice(0, most).map((name) => plainName(name, 80));
  const more = names.length - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}

export interface NetworkWords {
  /** "Package registries only". */
  summary: string;
  /** Places that are named. */
  details: [string, string][];
}

export function networkWords({ network, preset }: Pick<NetworkStatus, 'network' | 'preset'>): NetworkWords {
  const allow = network.allowOut ?? [];
  const deny = (network.denyOut ?? []).filter((place) => !EVERYWHERE.includes(place));
  const closed = (network.denyOut ?? []).some((place) => EVERYWHERE.includes(place));
  const details: [string, string][] = [];
  if (allow.length > 0) details.push(['Allowed', list(allow)]);
  if (deny.length > 0) details.push(['Denied', list(deny)]);
  if (network.dnsServers?.length) details.push(['Name servers', list(network.dnsServers)]);
  if (network.egressProxy) details.push(['Through proxy', plainName(network.egressProxy.address, 120)]);
  const rules = Object.keys(network.rules ?? {});
  if (rules.length > 0) details.push(['Headers set for', list(rules)]);
  const summary =
    preset === 'internet' && deny.length === 0
      ? 'The internet'
      : preset === 'registries'
        ? 'Package registries only'
        : preset === 'none' || (closed && allow.length === 0)
          ? 'Nothing outside'
          : closed
            ? 'Only what is allowed'
            : deny.length > 0
              ? 'The internet, except what is denied'
              : 'The internet';
  return { summary, details };
}
