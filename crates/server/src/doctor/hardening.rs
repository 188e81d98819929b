//! Checks of what makes a machine harder to harm. None of them is required.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cabana_types::Fact;

/// Connections that the machine should be able to track: each sandbox may have thousands.
const CONNECTIONS: u64 = 262_144;
const MITIGATIONS: &str = "/sys/devices/system/cpu/vulnerabilities";
const DOCUMENT: &str = "docs/hardening.md";

pub(super) fn facts(data_dir: &Path) -> Vec<Fact> {
    vec![mitigations(), cgroup_version(), own_disk(data_dir), connections()]
}

fn fact(name: &'static str, found: Result<String, String>, remedy: impl FnOnce() -> String) -> Fact {
    let ok = found.is_ok();
    let detail = found.unwrap_or_else(|problem| problem);
    Fact { name, ok, required: false, detail, remedy: (!ok).then(remedy) }
}

/// Whether the kernel works around the processor's leaks.
fn mitigations() -> Fact {
    let files = fs::read_dir(MITIGATIONS).into_iter().flatten().flatten();
    let states =
        files.filter_map(|entry| Some((entry.file_name().into_string().ok()?, fs::read_to_string(entry.path()).ok()?)));
    let open = vulnerable(states.collect());
    let found = if open.is_empty() { Ok("on".to_owned()) } else { Err(format!("off for {}", open.join(", "))) };
    fact("processor mitigations", found, || {
        "remove mitigations=off from the kernel's command line, or update the kernel and the microcode".to_owned()
    })
}

fn vulnerable(states: Vec<(String, String)>) -> Vec<String> {
    // `Vulnerable: Clear CPU buffers attempted, no microcode` is what virtual machines say that hide the microcode's version.
    let open = |state: &str| state.starts_with("Vulnerable") && !state.contains("attempted");
    let mut names: Vec<String> = states.into_iter().filter(|(_, state)| open(state)).map(|(name, _)| name).collect();
    names.sort();
    names
}

fn cgroup_version() -> Fact {
    let found = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        Ok("2".to_owned())
    } else {
        Err("1: memory of sockets and disk bandwidth are limited less exactly".to_owned())
    };
    fact("cgroups version", found, || "boot with systemd.unified_cgroup_hierarchy=1".to_owned())
}

fn own_disk(data_dir: &Path) -> Fact {
    let found = match (device(data_dir), device(Path::new("/"))) {
        (Some(data), Some(root)) if data != root => Ok(format!("{} is not on the system's", data_dir.display())),
        _ => Err(format!("{} shares the system's: sandboxes compete with the host for space", data_dir.display())),
    };
    fact("disk of its own", found, || format!("mount a disk at {} ({DOCUMENT})", data_dir.display()))
}

/// Of the directory, or of the nearest one above it that exists.
fn device(path: &Path) -> Option<u64> {
    path.ancestors().find_map(|above| fs::metadata(above).ok()).map(|metadata| metadata.dev())
}

fn connections() -> Fact {
    let most = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max");
    let most = most.ok().and_then(|text| text.trim().parse::<u64>().ok());
    let found = match most {
        Some(most) if most < CONNECTIONS => Err(format!("at most {most} connections")),
        Some(most) => Ok(format!("at most {most} connections")),
        None => Ok("made when the server starts".to_owned()),
    };
    fact("connection table", found, || format!("sysctl -w net.netfilter.nf_conntrack_max={CONNECTIONS}"))
}

/// Whether what is sent to the server at this address can be read on the way.
pub fn encryption(url: &str) -> Fact {
    let host = url.split("://").nth(1).unwrap_or(url);
    let local = ["127.", "localhost", "[::1]"].iter().any(|start| host.starts_with(start));
    let found = match (url.starts_with("https://"), local) {
        (true, _) => Ok("TLS".to_owned()),
        (false, true) => Ok("not needed: the server is on this machine".to_owned()),
        (false, false) => Err(format!("none: keys and files for {url} can be read on the way")),
    };
    fact("encryption", found, || "switch on TLS (docs/tls.md)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_leaks_are_named() {
        let states = [
            ("spectre_v2", "Mitigation: Enhanced IBRS"),
            ("mds", "Vulnerable\n"),
            ("l1tf", "Not affected\n"),
            ("tsa", "Vulnerable: Clear CPU buffers attempted, no microcode"),
            ("gds", "Vulnerable: No microcode"),
        ];
        let states = states.map(|(name, state)| (name.to_owned(), state.to_owned()));
        assert_eq!(vulnerable(states.to_vec()), ["gds", "mds"]);
    }

    #[test]
    fn encryption_matters_beyond_this_machine() {
        for (url, ok) in [
            ("http://127.0.0.1:3000", true),
            ("http://localhost:3000", true),
            ("http://[::1]:3000", true),
            ("https://sandbox.example", true),
            ("http://192.0.2.1:3000", false),
        ] {
            assert_eq!(encryption(url).ok, ok, "{url}");
        }
    }

    #[test]
    fn a_directory_that_does_not_exist_yet_is_on_the_disk_of_the_one_above() {
        assert_eq!(device(Path::new("/proc/none/at/all")), device(Path::new("/proc")));
        assert!(!own_disk(Path::new("/no/such/directory")).ok);
        assert!(own_disk(Path::new("/proc/none")).ok);
    }

    #[test]
    fn every_failed_check_has_a_remedy() {
        for fact in facts(Path::new("/var/lib/cabana")) {
            assert_eq!(fact.ok, fact.remedy.is_none(), "{fact:?}");
            assert!(!fact.required && !fact.detail.is_empty());
        }
    }
}
