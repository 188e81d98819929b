//! The packet filter: one nftables table per server, loaded in one transaction, so that there is never a moment
//! without rules. Per-sandbox data is in sets; only the set of sandboxes without internet access changes later.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cabana_types::address::{Prefix, closed_to_sandboxes};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tracing::warn;

use crate::Error;
use crate::addressing::{Addressing, BLOCK_PREFIX};
use crate::config::MOST_SLOTS;

/// The set of sandboxes without internet access.
pub(crate) const OFFLINE: &str = "offline";

/// The set in which the kernel counts each sandbox's connections.
pub(crate) const FLOWS: &str = "flows";

/// Concurrent outbound connections per sandbox: the kernel's table is shared by all.
const MOST_FLOWS: u32 = 4096;

/// The set in which the kernel counts each sandbox's DNS queries over UDP.
pub(crate) const QUERIES: &str = "queries";

/// DNS queries per second and sandbox, also the burst: all sandboxes share the forwarder's socket, and packets that
/// do not fit into its buffer are lost. Clients retry.
const QUERY_RATE: u32 = 500;

/// The kernel drops a sandbox's counter after this long without a query.
const QUERY_MEMORY: &str = "10s";

const PATIENCE: Duration = Duration::from_secs(20);

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

/// The whole table. `beyond` are used slots above the configured number of slots.
fn table(addressing: &Addressing, offline: &[u32], beyond: &[u32], counting: Counting) -> String {
    let (name, ours, dns) = (addressing.table(), format!("\"{}*\"", addressing.link_prefix()), addressing.dns());
    let block = format!("{}/{BLOCK_PREFIX}", addressing.block);
    let own: Vec<String> = (1..=addressing.slots)
        .chain(beyond.iter().copied().filter(|&index| index > addressing.slots))
        .map(|index| format!("\"{}\" . {}", addressing.link(index), addressing.address(index)))
        .collect();
    let own = own.join(", ");
    let offline: Vec<String> = offline.iter().map(|&index| addressing.address(index).to_string()).collect();
    let offline =
        if offline.is_empty() { String::new() } else { format!("    elements = {{ {} }}\n", offline.join(", ")) };
    let closed = closed_to_sandboxes().iter().map(Prefix::to_string).collect::<Vec<_>>().join(", ");
    // Other users of this machine come through the edge, which asks for the token of a sandbox's ports.
    let own_uid = rustix::process::geteuid().as_raw();
    let allowed = if own_uid == 0 { "0".to_owned() } else { format!("0, {own_uid}") };
    // A rejected connection fails at once; a dropped one would time out after two minutes.
    let refuse = "reject with icmpx admin-prohibited";
    let mut text = format!("table inet {name}\ndelete table inet {name}\ntable inet {name} {{\n");
    let count = if counting.flows {
        let _ = writeln!(text, "  set {FLOWS} {{\n    type ipv4_addr\n    size {MOST_SLOTS}\n    flags dynamic\n  }}");
        format!("    ct state new add @{FLOWS} {{ ip saddr ct count over {MOST_FLOWS} }} {refuse}\n")
    } else {
        String::new()
    };
    let hush = if counting.queries {
        let _ = writeln!(
            text,
            "  set {QUERIES} {{\n    type ipv4_addr\n    size {MOST_SLOTS}\n    flags dynamic,timeout\n    timeout {QUERY_MEMORY}\n  }}"
        );
        let over = format!("limit rate over {QUERY_RATE}/second burst {QUERY_RATE} packets");
        format!("    ip daddr {dns} udp dport 53 update @{QUERIES} {{ ip saddr {over} }} counter drop\n")
    } else {
        String::new()
    };
    let _ = write!(
        text,
        r#"  set own {{
    type ifname . ipv4_addr
    elements = {{ {own} }}
  }}
  set {OFFLINE} {{
    type ipv4_addr
{offline}  }}
  set closed {{
    type ipv4_addr
    flags interval
    elements = {{ {closed} }}
  }}
  chain arriving {{
    type filter hook prerouting priority raw; policy accept;
    iifname {ours} goto from_sandbox
    iifname != "lo" ip saddr {block} drop
    iifname != "lo" ip daddr {block} drop
  }}
  chain from_sandbox {{
    meta nfproto != ipv4 drop
    iifname . ip saddr != @own drop
  }}
  chain passing {{
    type filter hook forward priority filter; policy accept;
    iifname {ours} goto leaving
    oifname {ours} goto entering
  }}
  chain leaving {{
    ct state invalid drop
    oifname {ours} {refuse}
    ip saddr @{OFFLINE} {refuse}
    ip daddr @closed {refuse}
{count}  }}
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
{hush}    ip daddr {dns} udp dport 53 accept
    ip daddr {dns} tcp dport 53 accept
    {refuse}
  }}
  chain from_host {{
    type filter hook output priority filter; policy accept;
    oifname {ours} meta skuid != {{ {allowed} }} {refuse}
  }}
  chain nat {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {block} oifname != {ours} oifname != "lo" masquerade
  }}
}}
"#
    );
    text
}

/// Loads the table, replacing an existing one.
pub(crate) async fn load(addressing: &Addressing, offline: &[u32], used: &[u32]) -> Result<(), Error> {
    let mut refused: Option<Error> = None;
    for counting in COUNTINGS {
        match (nft(&table(addressing, offline, used, counting)).await, &refused) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(reason)) => {
                if !counting.flows {
                    warn!(%reason, "this kernel cannot limit the connections of a sandbox");
                }
                if !counting.queries {
                    warn!(%reason, "this kernel cannot limit the rate of a sandbox's DNS queries");
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
    nft(&format!("table inet {0}\ndelete table inet {0}\n", addressing.table())).await
}

/// Path of the `nft` program; services often run without the directories of system programs in `PATH`.
pub(crate) fn nft_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut candidates = std::env::split_paths(&path).chain(system).map(|dir| dir.join("nft"));
    candidates.find(|file| Path::is_file(file))
}

async fn nft(script: &str) -> Result<(), Error> {
    let program = nft_program()
        .ok_or_else(|| Error::Nft("the program is not installed; try: apt-get install nftables".to_owned()))?;
    let mut child = Command::new(program)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(Error::io("start nft"))?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let run = async {
        // If it stops reading, its exit status says why.
        let _ = stdin.write_all(script.as_bytes()).await;
        drop(stdin);
        child.wait_with_output().await.map_err(Error::io("wait for nft"))
    };
    let output =
        tokio::time::timeout(PATIENCE, run).await.map_err(|_| Error::Nft("no answer in 20 s".to_owned()))??;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Nft(said.lines().take(6).collect::<Vec<_>>().join("\n")))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::NetworkConfig;

    /// The kernel gets exactly the table of `types::address`.
    #[test]
    fn closed_set_matches_the_shared_table() {
        let config = NetworkConfig {
            instance: "t".to_owned(),
            run_dir: PathBuf::from("/run"),
            block: Ipv4Addr::new(100, 96, 0, 0),
            slots: 1,
            spare: 0,
            resolvers: vec![],
            bounds: Default::default(),
        };
        let addressing = Addressing::new(&config);
        let text = table(&addressing, &[], &[], COUNTINGS[0]);
        let (_, set) = text.split_once("set closed {").expect("the set");
        let (_, elements) = set.split_once("elements = {").expect("elements");
        let (elements, _) = elements.split_once('}').expect("the end");
        let loaded: Vec<&str> = elements.split(',').map(str::trim).collect();
        let expected: Vec<String> = closed_to_sandboxes().iter().map(Prefix::to_string).collect();
        assert_eq!(loaded, expected);
    }
}
