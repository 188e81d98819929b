//! The packet filter: one nftables table per server, loaded in one transaction, so that there is never a moment
//! without rules. Per-sandbox data is in sets, maps and chains that `filter.rs` changes later.

use std::fmt::Write as _;

use cabana_types::limits::FLOWS_AT_ONCE;
use tracing::warn;

use crate::addressing::{Addressing, BLOCK_PREFIX};
use crate::config::MOST_SLOTS;
use crate::dns::REDIRECTED_PORT;
use crate::egress::PROXY_PORT;
use crate::ranges::{self, Decided, MOST_RULES, Range};
use crate::{Error, nft};

/// The set of sandboxes without internet access.
pub(crate) const OFFLINE: &str = "offline";
/// The map from a sandbox to the chain of its policy.
pub(crate) const POLICIES: &str = "policies";
/// The map from a sandbox to the chain that redirects its connections.
pub(crate) const REDIRECTS: &str = "redirects";
/// The map of what nobody may connect to.
pub(crate) const CLOSED: &str = "closed";
/// The set in which the kernel counts refused packets by sandbox and rule.
pub(crate) const REFUSED: &str = "refused";
/// The chain that refuses a packet.
pub(crate) const REFUSE: &str = "refuse";

/// The set in which the kernel counts each sandbox's connections.
const FLOWS: &str = "flows";

/// The sets in which the kernel counts each sandbox's DNS queries over UDP, its DNS connections, and its new connections.
const QUERIES: &str = "queries";
const CONNECTS: &str = "connects";
const OPENED: &str = "opened";
/// The sets to which the kernel adds sandboxes by itself.
pub(crate) const COUNTED: [&str; 4] = [FLOWS, QUERIES, CONNECTS, OPENED];
/// DNS queries per second and sandbox, also the burst: all sandboxes share the forwarder's socket, and packets that
/// do not fit into its buffer are lost. Clients retry.
const QUERY_RATE: u32 = 500;
/// The same for DNS connections.
const CONNECT_RATE: u32 = 100;
/// New connections per second and sandbox, after a burst of [`FLOWS_AT_ONCE`]. The kernel keeps a closed connection in its
/// table for two minutes, but does not count it as concurrent. Clients retry what is dropped.
const OPEN_RATE: u32 = 500;
/// The kernel drops a sandbox's counter after this long without a query.
const QUERY_MEMORY: &str = "10s";

/// Which connections of a sandbox are redirected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// DNS, to the forwarder.
    Dns,
    /// The same, and TCP to the ports on which names are checked, to the egress proxy.
    Named,
    /// The same, and all other TCP.
    All,
}

impl Redirect {
    /// Its chain.
    pub(crate) fn chain(self) -> &'static str {
        match self {
            Redirect::Dns => "redirect_dns",
            Redirect::Named => "redirect_named",
            Redirect::All => "redirect_all",
        }
    }
}

/// The chain with a number: see [`crate::chains`].
pub(crate) fn chain(number: u32) -> String {
    format!("policy_{number}")
}

/// Names of what the policies of a chain decide: see [`Decided`].
#[derive(Debug)]
pub(crate) struct Names {
    /// The set of allowed addresses.
    pub(crate) allowed: String,
    /// The map of single addresses that are denied.
    pub(crate) single: String,
    /// The map of ranges that are denied.
    pub(crate) ranges: String,
}

impl Names {
    pub(crate) fn of(chain: u32) -> Names {
        let name = |what: &str| format!("{what}_{chain}");
        Names { allowed: name("allowed"), single: name("single"), ranges: name("ranges") }
    }
}

/// What the table holds beside its fixed rules.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Used slots; those above the configured number of slots are otherwise not expected.
    pub(crate) used: Vec<u32>,
    pub(crate) offline: Vec<u32>,
    /// Chains with what they decide, and which slot uses which.
    pub(crate) decided: Vec<(u32, Decided)>,
    pub(crate) policies: Vec<(u32, u32)>,
    pub(crate) redirects: Vec<(u32, Redirect)>,
    pub(crate) closed: Vec<Range>,
    pub(crate) only: Option<Vec<Range>>,
}

/// Per-sandbox counters. Each needs a kernel module that small kernels lack.
#[derive(Debug, Clone, Copy)]
struct Counting {
    flows: bool,
    queries: bool,
}

/// All counters first, then what the kernel supports.
const COUNTINGS: [Counting; 4] = [
    Counting { flows: true, queries: true },
    Counting { flows: true, queries: false },
    Counting { flows: false, queries: true },
    Counting { flows: false, queries: false },
];

fn elements(elements: impl Iterator<Item = String>) -> String {
    let elements = elements.collect::<Vec<_>>().join(", ");
    if elements.is_empty() { elements } else { format!("    elements = {{ {elements} }}\n") }
}

fn span(range: &Range) -> String {
    match range.first == range.last {
        true => range.first.to_string(),
        false => format!("{}-{}", range.first, range.last),
    }
}

fn marks(ranges: &[Range]) -> String {
    elements(ranges.iter().map(|range| format!("{} : {}", span(range), range.rule)))
}

/// Sets and maps.
fn sets(addressing: &Addressing, contents: &Contents, counting: Counting) -> String {
    let mut text = String::new();
    let mut set = |kind: &str, name: &str, lines: String| {
        let _ = write!(text, "  {kind} {name} {{\n{lines}  }}\n");
    };
    let address = |index: &u32| addressing.address(*index);
    let counted = |flags: &str| format!("    type ipv4_addr\n    size {MOST_SLOTS}\n    flags {flags}\n");
    if counting.flows {
        set("set", FLOWS, counted("dynamic"));
    }
    if counting.queries {
        set("set", QUERIES, counted("dynamic,timeout") + &format!("    timeout {QUERY_MEMORY}\n"));
        set("set", CONNECTS, counted("dynamic,timeout") + &format!("    timeout {QUERY_MEMORY}\n"));
        set("set", OPENED, counted("dynamic,timeout") + &format!("    timeout {QUERY_MEMORY}\n"));
    }
    let beyond = contents.used.iter().copied().filter(|&index| index > addressing.slots);
    let own = (1..=addressing.slots).chain(beyond);
    let own = own.map(|index| format!("\"{}\" . {}", addressing.link(index), addressing.address(index)));
    set("set", "own", format!("    type ifname . ipv4_addr\n{}", elements(own)));
    let offline = elements(contents.offline.iter().map(|index| address(index).to_string()));
    set("set", OFFLINE, format!("    type ipv4_addr\n{offline}"));
    let most = MOST_SLOTS * MOST_RULES;
    set("set", REFUSED, format!("    type ipv4_addr . mark\n    size {most}\n    flags dynamic\n"));
    let marked = "    type ipv4_addr : mark\n    flags interval\n";
    set("map", CLOSED, format!("{marked}{}", marks(&contents.closed)));
    if let Some(only) = &contents.only {
        let only = elements(only.iter().map(span));
        set("set", "only", format!("    type ipv4_addr\n    flags interval\n{only}"));
    }
    for (number, decided) in &contents.decided {
        let names = Names::of(*number);
        let allowed = elements(decided.allowed.iter().map(ToString::to_string));
        set("set", &names.allowed, format!("    type ipv4_addr\n{allowed}"));
        let single = elements(decided.single.iter().map(|(address, rule)| format!("{address} : {rule}")));
        set("map", &names.single, format!("    type ipv4_addr : mark\n{single}"));
        set("map", &names.ranges, format!("{marked}{}", marks(&decided.ranges)));
    }
    let policies = contents.policies.iter();
    let policies = policies.map(|(index, number)| format!("{} : jump {}", address(index), chain(*number)));
    set("map", POLICIES, format!("    type ipv4_addr : verdict\n{}", elements(policies)));
    let redirects = contents.redirects.iter().map(|(index, to)| format!("{} : goto {}", address(index), to.chain()));
    set("map", REDIRECTS, format!("    type ipv4_addr : verdict\n{}", elements(redirects)));
    text
}

/// The whole table.
fn table(addressing: &Addressing, contents: &Contents, counting: Counting) -> String {
    let (name, ours, dns) = (addressing.table(), format!("\"{}*\"", addressing.link_prefix()), addressing.dns());
    let block = format!("{}/{BLOCK_PREFIX}", addressing.block);
    // Other users of this machine come through the edge, which asks for the token of a sandbox's ports.
    let own_uid = rustix::process::geteuid().as_raw();
    let allowed = if own_uid == 0 { "0".to_owned() } else { format!("0, {own_uid}") };
    // A rejected connection fails at once; a dropped one would time out after two minutes.
    let reject = "reject with icmpx admin-prohibited";
    let count = |rule: String, is_counted: bool| if is_counted { format!("    {rule}\n") } else { String::new() };
    let flows = format!("add @{FLOWS} {{ ip saddr ct count over {FLOWS_AT_ONCE} }} {reject}");
    let most_flows = count(format!("ct state new {flows}"), counting.flows);
    let most_redirects = count(format!("ct state new ct status dnat {flows}"), counting.flows);
    let opened = format!(
        "update @{OPENED} {{ ip saddr limit rate over {OPEN_RATE}/second burst {FLOWS_AT_ONCE} packets }} counter drop"
    );
    let few_new = count(format!("ct state new {opened}"), counting.queries);
    let few_redirects = count(format!("ct state new ct status dnat {opened}"), counting.queries);
    let over = |rate: u32| format!("limit rate over {rate}/second burst {rate} packets");
    let ports = format!("{{ 53, {REDIRECTED_PORT} }}");
    let few_queries =
        format!("ip daddr {dns} udp dport {ports} update @{QUERIES} {{ ip saddr {} }} counter drop", over(QUERY_RATE));
    let few_connects = format!(
        "ip daddr {dns} tcp dport {ports} tcp flags & (fin|syn|rst|ack) == syn update @{CONNECTS} {{ ip saddr {} }} counter drop",
        over(CONNECT_RATE)
    );
    let (few_queries, few_connects) = (count(few_queries, counting.queries), count(few_connects, counting.queries));
    let (offline, only) = (ranges::OFFLINE, ranges::ONLY);
    let within = count(format!("ip daddr != @only meta mark set {only} goto {REFUSE}"), contents.only.is_some());
    let mut policies = String::new();
    for (number, _) in &contents.decided {
        let (chain, Names { allowed, single, ranges }) = (chain(*number), Names::of(*number));
        let _ = write!(policies, "  chain {chain} {{\n    ip daddr @{allowed} return\n");
        for map in [single, ranges] {
            let _ = writeln!(policies, "    meta mark set ip daddr map @{map} goto {REFUSE}");
        }
        policies.push_str("  }\n");
    }
    let sets = sets(addressing, contents, counting);
    // The name server is not tracked: its clients could fill the machine's connection table. So sandboxes without internet
    // access may ask it, too: it refuses, and a program that gets no answer would wait. What is redirected has another
    // port, because its responses must be tracked.
    // The set of counters may be full, so a packet is refused by a rule of its own.
    format!(
        r#"table inet {name}
delete table inet {name}
table inet {name} {{
{sets}  chain {REFUSE} {{
    add @{REFUSED} {{ ip saddr . meta mark counter }}
    {reject}
  }}
{policies}  chain arriving {{
    type filter hook prerouting priority raw; policy accept;
    iifname {ours} goto from_sandbox
    iifname != "lo" ip saddr {block} drop
    iifname != "lo" ip daddr {block} drop
  }}
  chain from_sandbox {{
    meta nfproto != ipv4 drop
    iifname . ip saddr != @own drop
    ip daddr {dns} meta l4proto {{ tcp, udp }} th dport 53 notrack
  }}
  chain answering {{
    type filter hook output priority raw; policy accept;
    ip saddr {dns} meta l4proto {{ tcp, udp }} th sport 53 notrack
  }}
  chain redirecting {{
    type nat hook prerouting priority dstnat; policy accept;
    iifname {ours} ip saddr vmap @{REDIRECTS}
  }}
  chain redirect_dns {{
    meta l4proto {{ tcp, udp }} th dport 53 dnat ip to {dns}:{REDIRECTED_PORT}
  }}
  chain redirect_named {{
    jump redirect_dns
    tcp dport {{ 80, 443 }} dnat ip to {dns}:{PROXY_PORT}
  }}
  chain redirect_all {{
    jump redirect_dns
    meta l4proto tcp dnat ip to {dns}:{PROXY_PORT}
  }}
  chain passing {{
    type filter hook forward priority filter; policy accept;
    iifname {ours} goto leaving
    oifname {ours} goto entering
  }}
  chain leaving {{
    ct state invalid drop
    oifname {ours} {reject}
    ip saddr @{OFFLINE} meta mark set {offline} goto {REFUSE}
    meta mark set ip daddr map @{CLOSED} goto {REFUSE}
{within}    ip saddr vmap @{POLICIES}
{most_flows}{few_new}  }}
  chain entering {{
    ip daddr @{OFFLINE} drop
    ct state established,related accept
    drop
  }}
  chain to_host {{
    type filter hook input priority filter; policy accept;
    iifname {ours} goto asking_host
  }}
  chain asking_host {{
    ct state established ct direction reply accept
    ct state related meta l4proto icmp accept
{few_queries}{few_connects}    ip daddr {dns} meta l4proto {{ tcp, udp }} th dport 53 accept
    ip saddr @{OFFLINE} meta mark set {offline} goto {REFUSE}
{most_redirects}{few_redirects}    ct status dnat ip daddr {dns} meta l4proto {{ tcp, udp }} th dport {REDIRECTED_PORT} accept
    ct status dnat ip daddr {dns} tcp dport {PROXY_PORT} accept
    {reject}
  }}
  chain from_host {{
    type filter hook output priority filter; policy accept;
    oifname {ours} meta skuid != {{ {allowed} }} {reject}
  }}
  chain nat {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {block} oifname != {ours} oifname != "lo" masquerade
  }}
}}
"#
    )
}

/// Loads the table, replacing an existing one.
pub(crate) async fn load(addressing: &Addressing, contents: &Contents) -> Result<(), Error> {
    let mut refused: Option<Error> = None;
    for counting in COUNTINGS {
        match (nft::run(&table(addressing, contents, counting)).await, &refused) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(reason)) => {
                if !counting.flows {
                    warn!(%reason, "this kernel cannot limit the connections of a sandbox");
                }
                if !counting.queries {
                    warn!(%reason, "this kernel cannot limit the rate of a sandbox's DNS queries and new connections");
                }
                return Ok(());
            }
            // Everything but the counters is required, so the first error is the relevant one.
            (Err(error), _) => refused = refused.or(Some(error)),
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Removes the table, if it exists.
pub(crate) async fn unload(addressing: &Addressing) -> Result<(), Error> {
    nft::run(&format!("table inet {0}\ndelete table inet {0}\n", addressing.table())).await
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::PathBuf;

    use cabana_types::address::closed_to_sandboxes;
    use cabana_types::egress::Bounds;

    use super::*;
    use crate::NetworkConfig;

    /// The kernel gets exactly the table of `types::address`.
    #[test]
    fn closed_map_matches_the_shared_table() {
        let config = NetworkConfig {
            instance: "t".to_owned(),
            run_dir: PathBuf::from("/run"),
            block: Ipv4Addr::new(100, 96, 0, 0),
            slots: 1,
            spare: 0,
            resolvers: vec![],
            bounds: Bounds::default(),
        };
        let addressing = Addressing::new(&config);
        let contents = Contents { closed: ranges::closed(&Bounds::default()), ..Contents::default() };
        let text = table(&addressing, &contents, COUNTINGS[0]);
        let (_, map) = text.split_once("map closed {").expect("the map");
        let (_, elements) = map.split_once("elements = {").expect("elements");
        let (elements, _) = elements.split_once('}').expect("the end");
        let loaded: Vec<(u32, u32)> = elements
            .split(',')
            .map(|element| {
                let (range, _) = element.trim().split_once(" : ").expect("a mark");
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let bits = |text: &str| text.parse::<Ipv4Addr>().expect("an address").to_bits();
                (bits(first), bits(last))
            })
            .collect();
        let size = |prefix: &cabana_types::address::Prefix| 1_u64 << (32 - prefix.length());
        let expected: u64 = closed_to_sandboxes().iter().map(size).sum();
        assert_eq!(loaded.iter().map(|(first, last)| u64::from(last - first) + 1).sum::<u64>(), expected);
        for prefix in closed_to_sandboxes() {
            let std::net::IpAddr::V4(first) = prefix.address() else { panic!("{prefix}") };
            let last = first.to_bits() + u32::try_from(size(&prefix) - 1).expect("it is not everything");
            for bits in [first.to_bits(), last] {
                assert!(loaded.iter().any(|(first, last)| (*first..=*last).contains(&bits)), "{prefix}");
            }
        }
    }
}
