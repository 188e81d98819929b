//! Network checks of `cabana doctor`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::nft;

/// A check of the machine and its result.
#[derive(Debug, Clone)]
pub struct Fact {
    /// Name of the check.
    pub name: &'static str,
    /// Whether sandbox networking works with it.
    pub ok: bool,
    /// What was found.
    pub detail: String,
    /// How to fix it.
    pub remedy: Option<String>,
}

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// Checks the machine. Runs `nft` to read, and changes nothing.
pub fn facts() -> Vec<Fact> {
    let mut facts = vec![privileges(), program()];
    if let Some(nft) = nft::program() {
        facts.extend([kernel(&nft), firewall(&nft)]);
    }
    facts.push(forwarding());
    facts
}

fn privileges() -> Fact {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let missing: Vec<&str> = [(CAP_NET_ADMIN, "CAP_NET_ADMIN"), (CAP_SYS_ADMIN, "CAP_SYS_ADMIN")]
        .into_iter()
        .filter(|(bit, _)| held >> bit & 1 == 0)
        .map(|(_, name)| name)
        .collect();
    let ok = missing.is_empty();
    Fact {
        name: "network privileges",
        ok,
        detail: if ok { "held".to_owned() } else { format!("missing {}", missing.join(" and ")) },
        remedy: (!ok).then(|| "run the server as root".to_owned()),
    }
}

fn program() -> Fact {
    let found = nft::program();
    Fact {
        name: "nft program",
        ok: found.is_some(),
        detail: found.as_ref().map_or_else(|| "not found".to_owned(), |path| path.display().to_string()),
        remedy: found.is_none().then(|| "apt-get install nftables".to_owned()),
    }
}

fn kernel(nft: &Path) -> Fact {
    let run = Command::new(nft).args(["list", "tables"]).stdin(Stdio::null()).output();
    let problem = match run {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("failed").to_owned()),
        Err(e) => Some(e.to_string()),
    };
    Fact {
        name: "nf_tables in the kernel",
        ok: problem.is_none(),
        remedy: problem.is_some().then(|| "modprobe nf_tables (as root)".to_owned()),
        detail: problem.unwrap_or_else(|| "usable".to_owned()),
    }
}

/// Whether another firewall drops forwarded packets: our rules cannot override that.
fn firewall(nft: &Path) -> Fact {
    let run = Command::new(nft).args(["-j", "list", "chains"]).stdin(Stdio::null()).output();
    let json = run.ok().and_then(|output| serde_json::from_slice::<serde_json::Value>(&output.stdout).ok());
    let dropping = json.as_ref().map(dropping_chains).unwrap_or_default();
    let ok = dropping.is_empty();
    Fact {
        name: "other firewalls",
        ok,
        detail: if ok { "none in the way".to_owned() } else { format!("drop by default: {}", dropping.join(", ")) },
        remedy: (!ok).then(|| "let interfaces named cb* pass in these chains, in and out".to_owned()),
    }
}

fn dropping_chains(list: &serde_json::Value) -> Vec<String> {
    let chains = list["nftables"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(|item| &item["chain"]);
    chains
        .filter(|chain| chain["policy"] == "drop" && (chain["hook"] == "forward" || chain["hook"] == "input"))
        .map(|chain| {
            let word = |key: &str| chain[key].as_str().unwrap_or("?").to_owned();
            format!("{} {} {}", word("family"), word("table"), word("name"))
        })
        .collect()
}

fn forwarding() -> Fact {
    let now = std::fs::read_to_string(FORWARDING);
    let on = now.as_ref().is_ok_and(|value| value.trim() == "1");
    // The server enables it by itself if permitted.
    let writable = rustix::fs::access(FORWARDING, rustix::fs::Access::WRITE_OK).is_ok();
    let detail = match (&now, on, writable) {
        (Err(e), ..) => e.to_string(),
        (_, true, _) => "on".to_owned(),
        (_, false, true) => "off; the server turns it on".to_owned(),
        (_, false, false) => "off, and cannot be turned on from here".to_owned(),
    };
    let ok = on || writable;
    Fact { name: "IP forwarding", ok, detail, remedy: (!ok).then(|| "sysctl -w net.ipv4.ip_forward=1".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_chains_are_found() {
        let list = serde_json::json!({"nftables": [
            {"metainfo": {}},
            {"chain": {"family": "ip", "table": "filter", "name": "FORWARD", "hook": "forward", "policy": "drop"}},
            {"chain": {"family": "ip", "table": "filter", "name": "OUTPUT", "hook": "output", "policy": "drop"}},
            {"chain": {"family": "inet", "table": "x", "name": "y"}},
        ]});
        assert_eq!(dropping_chains(&list), ["ip filter FORWARD"]);
        assert!(dropping_chains(&serde_json::Value::Null).is_empty());
    }

    #[test]
    fn failed_checks_have_a_remedy() {
        for fact in facts() {
            assert_eq!(fact.ok, fact.remedy.is_none(), "{fact:?}");
            assert!(!fact.detail.is_empty());
        }
    }
}
