//! How well this machine keeps hostile code away from itself and from other sandboxes, in plain words.

use cabana_types::Fact;
use serde::Serialize;

/// Checks without which one sandbox can harm the others.
pub(super) const NEEDED: [&str; 5] = ["btrfs", "btrfs-progs", "loop devices", "process table", "memory shortage"];
/// Checks that make harm less likely, or smaller.
pub(super) const HELPFUL: [&str; 8] = [
    "terminals",
    "processor mitigations",
    "cgroups version",
    "disk of its own",
    "disk bandwidth",
    "connection table",
    "encryption",
    "apparmor",
];
/// All sandboxes share the kernel, whatever the machine is like.
const STRANGERS: &str = "for code of strangers, give each of them a server in a virtual machine of its own: sandboxes \
                         share this machine's kernel";

/// How well a machine keeps hostile code away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The checks need root.
    Unknown,
    /// No server can run.
    None,
    /// One sandbox can harm others.
    Basic,
    /// All that sandboxes with a shared kernel can have.
    Good,
}

impl Level {
    /// The level, and whom it is good enough for.
    pub fn words(self) -> &'static str {
        match self {
            Self::Unknown => "not known: some checks need root",
            Self::None => "none: a server cannot run here",
            Self::Basic => "basic: for your own code; one sandbox can harm others",
            Self::Good => "good: for your own agents and for teams you trust",
        }
    }
}

/// The level, and how it can be raised.
#[derive(Debug, PartialEq, Eq)]
pub struct Protection {
    pub level: Level,
    /// What would raise it, the most important first.
    pub raise: Vec<String>,
}

/// What the checks say about the protection.
pub fn protection(facts: &[Fact]) -> Protection {
    let lacking = |names: &[&str]| -> Vec<String> {
        let wrong = facts.iter().filter(|fact| !fact.ok && names.contains(&fact.name));
        wrong.map(advice).collect()
    };
    let missing: Vec<String> = facts.iter().filter(|fact| !fact.ok && fact.required).map(advice).collect();
    if facts.iter().any(|fact| fact.name == "root" && !fact.ok) {
        return Protection { level: Level::Unknown, raise: vec!["sudo cabana doctor".to_owned()] };
    }
    if !missing.is_empty() {
        return Protection { level: Level::None, raise: missing };
    }
    let needed = lacking(&NEEDED);
    let level = if needed.is_empty() { Level::Good } else { Level::Basic };
    let raise = needed.into_iter().chain(lacking(&HELPFUL)).chain([STRANGERS.to_owned()]).collect();
    Protection { level, raise }
}

fn advice(fact: &Fact) -> String {
    format!("{}: {}", fact.name, fact.remedy.as_deref().unwrap_or(&fact.detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(name: &'static str, ok: bool, required: bool) -> Fact {
        Fact { name, ok, required, detail: "found".to_owned(), remedy: (!ok).then(|| format!("fix {name}")) }
    }

    #[test]
    fn a_complete_machine_is_good_and_says_what_it_is_not_for() {
        let found = protection(&[fact("root", true, true), fact("btrfs", true, false)]);
        assert_eq!(found.level, Level::Good);
        assert_eq!(found.raise, [STRANGERS]);
    }

    #[test]
    fn what_is_only_helpful_does_not_lower_the_level() {
        let found = protection(&[fact("disk of its own", false, false), fact("server", false, false)]);
        assert_eq!(found.level, Level::Good);
        assert_eq!(found.raise, ["disk of its own: fix disk of its own", STRANGERS]);
    }

    #[test]
    fn without_a_needed_check_it_is_basic_and_that_comes_first() {
        let found = protection(&[fact("terminals", false, false), fact("process table", false, false)]);
        assert_eq!(found.level, Level::Basic);
        assert_eq!(found.raise[..2], ["process table: fix process table", "terminals: fix terminals"]);
    }

    #[test]
    fn a_missing_requirement_is_no_protection() {
        let found = protection(&[fact("root", true, true), fact("seccomp", false, true), fact("btrfs", false, false)]);
        assert_eq!(found, Protection { level: Level::None, raise: vec!["seccomp: fix seccomp".to_owned()] });
    }

    #[test]
    fn without_root_it_is_not_known() {
        assert_eq!(protection(&[fact("root", false, true), fact("seccomp", false, true)]).level, Level::Unknown);
    }
}
