//! What a machine must have, and should have, for sandboxes: checks of the crates below.

use std::path::Path;

use cabana_types::Fact;

/// Checks the machine: processes, network, and the pool in this data directory.
pub fn check(data_dir: &Path) -> Vec<Fact> {
    let mut facts = cabana_jail::machine::facts();
    facts.extend(cabana_net::facts().into_iter().map(network));
    facts.extend(cabana_storage::pool::facts(data_dir));
    facts.push(cabana_jail::cgroup::io::fact(&data_dir.join("pool")));
    facts
}

/// Another firewall is only a warning; everything else is required.
fn network(fact: cabana_net::Fact) -> Fact {
    let required = fact.name != "other firewalls";
    Fact { name: fact.name, ok: fact.ok, required, detail: fact.detail, remedy: fact.remedy }
}
