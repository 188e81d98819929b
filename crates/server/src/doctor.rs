//! Checks of the machine that a server runs on, and how well it keeps sandboxes apart: for `cabana doctor` and for the API.

mod hardening;
mod machine;
mod protection;
mod serving;

use std::path::Path;

use cabana_types::Fact;

pub use self::hardening::encryption;
pub use self::protection::{Level, Protection, protection};
pub use self::serving::server;

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What a server needs to run.
    Machine,
    /// What keeps one sandbox from harming others.
    Protection,
    /// What makes harm less likely, or smaller.
    Hardening,
    /// The server itself.
    Server,
}

impl Group {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Protection => "protection",
            Self::Hardening => "hardening",
            Self::Server => "server",
        }
    }
}

/// A check and its result.
#[derive(Debug, Clone)]
pub struct Check {
    pub group: Group,
    pub fact: Fact,
}

/// Checks this machine. `guest` is the guest program that would be used, or why there is none, with its remedy.
pub fn checks(data_dir: &Path, guest: Result<String, String>, remedy: &str) -> Vec<Check> {
    let machine = machine::facts().into_iter().chain([machine::required("guest program", guest, remedy)]);
    let host = cabana_runtime::host::check(data_dir);
    let grouped = machine.chain(host).map(|fact| {
        let group = if protection::NEEDED.contains(&fact.name) { Group::Protection } else { Group::Machine };
        let group = if protection::HELPFUL.contains(&fact.name) { Group::Hardening } else { group };
        Check { group, fact }
    });
    let hardening = hardening::facts(data_dir).into_iter().map(|fact| Check { group: Group::Hardening, fact });
    grouped.chain(hardening).collect()
}
