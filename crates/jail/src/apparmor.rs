//! A profile of AppArmor for sandboxes, where the machine has loaded it (`packaging/apparmor/cabana-sandbox`). It
//! repeats what namespaces, the system call filter and read-only mounts refuse, so that a mistake in one of them is not
//! enough.

use std::fs;
use std::path::Path;

use cabana_types::Fact;

use crate::Error;

/// The name of the profile.
const PROFILE: &str = "cabana-sandbox";
const ENABLED: &str = "/sys/module/apparmor/parameters/enabled";
const PROFILES: &str = "/sys/kernel/security/apparmor/profiles";
/// Where a process says which profile its next program gets; older kernels have the second only.
const ON_EXEC: [&str; 2] = ["/proc/self/attr/apparmor/exec", "/proc/self/attr/exec"];

/// What this machine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The kernel does not have it, or it is off.
    Absent,
    /// It is on, and our profile is not loaded.
    NotLoaded,
    /// Our profile only logs.
    Complains,
    /// Our profile is enforced.
    Enforced,
}

fn state(read: impl Fn(&Path) -> Option<String>) -> State {
    if read(Path::new(ENABLED)).is_none_or(|text| text.trim() != "Y") {
        return State::Absent;
    }
    let profiles = read(Path::new(PROFILES)).unwrap_or_default();
    let mode = profiles.lines().find_map(|line| line.strip_prefix(PROFILE)?.strip_prefix(" ("));
    match mode.map(|mode| mode.trim_end_matches(')')) {
        None => State::NotLoaded,
        Some("enforce" | "kill") => State::Enforced,
        Some(_) => State::Complains,
    }
}

/// Whether sandboxes get the profile. A profile that only logs is used too: that is how an operator tries a change of it.
pub(crate) fn is_loaded() -> bool {
    matches!(state(|path| fs::read_to_string(path).ok()), State::Complains | State::Enforced)
}

/// Gives this process the profile when it executes the guest. Uses the host's `/proc`. A sandbox that cannot have a
/// profile that is loaded must not start without it.
pub(crate) fn confine_next_program() -> Result<(), Error> {
    let path = ON_EXEC.into_iter().find(|path| Path::new(path).exists()).unwrap_or(ON_EXEC[0]);
    fs::write(path, format!("exec {PROFILE}")).map_err(|source| Error::Path {
        action: "write",
        path: path.into(),
        source,
    })
}

/// Whether sandboxes get the profile, for `cabana doctor`.
pub(crate) fn fact() -> Fact {
    described(state(|path| fs::read_to_string(path).ok()))
}

fn described(state: State) -> Fact {
    let load = "load it and restart the server (docs/hardening.md)";
    let (detail, remedy) = match state {
        State::Absent => ("not on this machine; sandboxes do not depend on it", None),
        State::NotLoaded => ("on, but the profile cabana-sandbox is not loaded", Some(load)),
        State::Complains => ("the profile cabana-sandbox only logs", Some("aa-enforce cabana-sandbox")),
        State::Enforced => ("sandboxes have the profile cabana-sandbox", None),
    };
    let remedy = remedy.map(str::to_owned);
    Fact { name: "apparmor", ok: remedy.is_none(), required: false, detail: detail.to_owned(), remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(enabled: Option<&str>, profiles: Option<&str>) -> State {
        state(|path| match path.to_str() {
            Some(ENABLED) => enabled.map(str::to_owned),
            Some(PROFILES) => profiles.map(str::to_owned),
            _ => None,
        })
    }

    #[test]
    fn the_profile_is_used_where_it_is_loaded() {
        let others = "docker-default (enforce)\ncabana-sandbox-old (enforce)\n";
        assert_eq!(on(None, None), State::Absent);
        assert_eq!(on(Some("N\n"), Some("cabana-sandbox (enforce)\n")), State::Absent);
        assert_eq!(on(Some("Y\n"), None), State::NotLoaded);
        assert_eq!(on(Some("Y\n"), Some(others)), State::NotLoaded);
        assert_eq!(on(Some("Y\n"), Some(&format!("{others}cabana-sandbox (enforce)\n"))), State::Enforced);
        assert_eq!(on(Some("Y\n"), Some("cabana-sandbox (complain)\n")), State::Complains);
    }

    #[test]
    fn a_machine_without_apparmor_lacks_nothing() {
        assert!(described(State::Absent).ok && described(State::Enforced).ok);
        assert!(!described(State::NotLoaded).ok && !described(State::Complains).ok);
    }

    #[test]
    fn the_file_holds_the_profile_of_this_name() {
        let text = include_str!("../../../packaging/apparmor/cabana-sandbox");
        assert!(text.lines().any(|line| line.starts_with(&format!("profile {PROFILE} "))), "{text}");
        // The guest runs from a memory file without a path.
        assert!(text.contains("attach_disconnected") && text.contains("mediate_deleted"));
    }
}
