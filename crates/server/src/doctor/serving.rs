//! The check of a running server, by what it says of itself.

use cabana_types::Fact;
use cabana_types::wire::{IsolationStatus, ServerStatus};

/// A server that answers at this address.
pub fn server(status: &ServerStatus, url: &str) -> Fact {
    let detail = format!(
        "version {} at {url}, {} sandboxes up{}{}{}",
        status.version,
        status.running,
        abilities(status),
        isolations(status),
        storage(status)
    );
    let ok = status.storage.as_ref().is_none_or(|storage| storage.state == "ok");
    Fact { name: "server", ok, required: false, detail, remedy: space_remedy(status) }
}

/// Capabilities of the server's default backend, if it reports them.
fn abilities(status: &ServerStatus) -> String {
    let Some(can) = status.capabilities else { return String::new() };
    let named = [
        (can.disk_quota, "disk limits"),
        (can.pause_memory, "pausing with memory"),
        (can.memory_outlives_reboot, "memory that outlives a reboot"),
        (can.copies, "snapshots and forks"),
    ];
    let list = |wanted: bool| {
        let names: Vec<_> = named.iter().filter(|(able, _)| *able == wanted).map(|(_, name)| *name).collect();
        names.join(", ")
    };
    let part = |word: &str, names: String| if names.is_empty() { names } else { format!("; {word} {names}") };
    part("with", list(true)) + &part("without", list(false))
}

/// The server's isolation backends, if it reports them.
fn isolations(status: &ServerStatus) -> String {
    let one = |isolation: &IsolationStatus| {
        let facts = [
            (isolation.default, "default"),
            (isolation.pause_memory, "pauses in RAM"),
            (isolation.checkpoint, "checkpoints"),
            (isolation.mounts, "mounts"),
        ];
        let facts: Vec<_> = facts.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        format!("{} ({})", isolation.name, facts.join(", "))
    };
    let all: Vec<_> = status.isolations.iter().map(one).collect();
    if all.is_empty() { String::new() } else { format!("; isolation: {}", all.join(", ")) }
}

/// What is wrong with the server's disks.
fn storage(status: &ServerStatus) -> String {
    let Some(storage) = status.storage.as_ref().filter(|storage| storage.state != "ok") else { return String::new() };
    let (free, reserve) = (storage.free_mb, storage.reserve_mb);
    match storage.state.as_str() {
        "read_only" => format!("; its disks are READ-ONLY because the disk was full ({free} MiB are free)"),
        _ => format!("; only {free} MiB are free, {reserve} MiB are needed for new sandboxes"),
    }
}

fn space_remedy(status: &ServerStatus) -> Option<String> {
    (!storage(status).is_empty()).then(|| {
        "free some space on the disk of the data directory; the server goes on by itself (its log says how)".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use cabana_types::wire::{Capabilities, StorageStatus};

    use super::*;

    #[test]
    fn server_abilities_are_listed() {
        let listed_abilities = |capabilities| {
            abilities(&ServerStatus {
                version: "1".into(),
                backend: "native".into(),
                running: 0,
                capabilities,
                isolations: vec![],
                storage: None,
                capacity: None,
                machine: None,
            })
        };
        let can = |all, copies| {
            Some(Capabilities { disk_quota: all, pause_memory: all, memory_outlives_reboot: all, copies })
        };
        assert_eq!(listed_abilities(None), "", "an older server");
        assert_eq!(
            listed_abilities(can(false, true)),
            "; with snapshots and forks; without disk limits, pausing with memory, memory that outlives a reboot"
        );
        assert!(!listed_abilities(can(true, true)).contains("without"));
        assert!(listed_abilities(can(false, false)).starts_with("; without disk limits"));
    }

    #[test]
    fn isolation_backends_are_listed() {
        let isolation = |name: &str, default| IsolationStatus {
            name: name.into(),
            default,
            pause_memory: default,
            checkpoint: !default,
            memory_outlives_reboot: false,
            mounts: true,
            out_of_memory: "process".into(),
        };
        let listed = vec![isolation("native", true), isolation("other", false)];
        let status = ServerStatus {
            version: "1".into(),
            backend: "native".into(),
            running: 0,
            capabilities: None,
            isolations: listed,
            storage: None,
            capacity: None,
            machine: None,
        };
        assert_eq!(
            isolations(&status),
            "; isolation: native (default, pauses in RAM, mounts), other (checkpoints, mounts)"
        );
        assert_eq!(isolations(&ServerStatus { isolations: vec![], ..status.clone() }), "", "an older server");
        let with = |state: &str| {
            let storage = StorageStatus { state: state.into(), free_mb: 5, reserve_mb: 9, clamped: 0 };
            ServerStatus { storage: Some(storage), ..status.clone() }
        };
        assert_eq!((storage(&status), storage(&with("ok"))), (String::new(), String::new()));
        assert_eq!(storage(&with("low")), "; only 5 MiB are free, 9 MiB are needed for new sandboxes");
        assert!(space_remedy(&with("read_only")).is_some() && space_remedy(&with("ok")).is_none());
    }
}
