//! Which processes belong to which service: those in the session of its command, those with its mark in their environment, and what these
//! have started. The daemon and process 1 belong to none, whatever they seem to be.

use std::collections::{HashMap, HashSet};

use super::environment;
use crate::commands::Commands;
use crate::survivors::{self, Process, Ticks};

/// More than a sandbox may have.
const MAX_PROCESSES: usize = 65_536;
/// Ancestors of a process that are looked at.
const MAX_DEPTH: usize = 256;

/// The processes at one time.
pub(crate) struct Census {
    processes: HashMap<u32, Process>,
    /// Tags by session.
    sessions: HashMap<u32, String>,
    /// Tags in environments.
    marks: HashMap<u32, String>,
}

impl Census {
    /// Looks at all processes; blocks.
    pub(crate) fn take(commands: &Commands) -> Self {
        // Before the processes: a command that starts meanwhile is not among them.
        let services = commands.services();
        let own = std::process::id();
        let alive = |pid: u32| survivors::stat(pid).filter(|process| process.is_alive).map(|process| (pid, process));
        let pids = survivors::pids().filter(|pid| *pid > 1 && *pid != own).take(MAX_PROCESSES);
        let processes: HashMap<u32, Process> = pids.filter_map(alive).collect();
        let running = services.into_iter().filter_map(|c| Some((c.number(), c.tag.clone()?, c.reaped_at())));
        let sessions = sessions(&processes, running);
        let unknown = processes.iter().filter(|(_, process)| !sessions.contains_key(&process.session));
        let marks = environment::marks(unknown.map(|(pid, _)| *pid)).into_iter().collect();
        Self { processes, sessions, marks }
    }

    /// Tag of the service that a process belongs to.
    pub(crate) fn service_of(&self, pid: u32) -> Option<&str> {
        let mut pid = pid;
        for _ in 0..MAX_DEPTH {
            let process = self.processes.get(&pid)?;
            let tag = self.sessions.get(&process.session).or_else(|| self.marks.get(&pid));
            if let Some(tag) = tag {
                return Some(tag);
            }
            pid = process.parent;
        }
        None
    }

    /// Processes of a service.
    pub(crate) fn members(&self, tag: &str) -> HashSet<u32> {
        self.processes.keys().copied().filter(|pid| self.service_of(*pid) == Some(tag)).collect()
    }

    /// What is known of a process.
    pub(super) fn process(&self, pid: u32) -> Option<Process> {
        self.processes.get(&pid).copied()
    }
}

/// Sessions that belong to services. The number of a command that has ended may be given to another session, but not while a process
/// of its own one is left.
fn sessions(
    processes: &HashMap<u32, Process>,
    services: impl Iterator<Item = (u32, String, Option<Ticks>)>,
) -> HashMap<u32, String> {
    let mut oldest: HashMap<u32, Ticks> = HashMap::new();
    for process in processes.values() {
        let first = oldest.entry(process.session).or_insert(process.started);
        *first = process.started.min(*first);
    }
    let is_valid = |session: &u32, reaped: Option<Ticks>| match (reaped, oldest.get(session)) {
        (None, _) => true,
        (Some(reaped), Some(oldest)) => *oldest <= reaped,
        (Some(_), None) => false,
    };
    services.filter(|(session, _, reaped)| is_valid(session, *reaped)).map(|(session, tag, _)| (session, tag)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: u32, session: u32) -> Process {
        let own = survivors::stat(std::process::id()).unwrap();
        Process { parent, session, ..own }
    }

    fn census(processes: &[(u32, u32, u32)], marks: &[(u32, &str)]) -> Census {
        Census {
            processes: processes.iter().map(|(pid, parent, session)| (*pid, process(*parent, *session))).collect(),
            sessions: HashMap::from([(10, "service:a".to_owned())]),
            marks: marks.iter().map(|(pid, tag)| (*pid, (*tag).to_owned())).collect(),
        }
    }

    #[test]
    fn by_session_mark_and_parent() {
        let census = census(
            &[(10, 1, 10), (11, 10, 10), (12, 1, 12), (13, 12, 13), (14, 1, 14), (15, 14, 14), (16, 1, 10)],
            &[(12, "service:a"), (15, "service:b"), (16, "service:b")],
        );
        let members = |tag| {
            let mut members: Vec<_> = census.members(tag).into_iter().collect();
            members.sort_unstable();
            members
        };
        assert_eq!(members("service:a"), [10, 11, 12, 13, 16], "the session decides before the environment");
        assert_eq!(members("service:b"), [15]);
        assert_eq!(census.service_of(14), None);
        assert_eq!(census.service_of(1), None);
    }

    #[test]
    fn parents_in_a_circle_end() {
        let census = census(&[(20, 21, 20), (21, 20, 20)], &[]);
        assert_eq!(census.service_of(20), None);
    }

    #[test]
    fn numbers_that_are_used_again() {
        let processes = HashMap::from([(11, process(1, 10))]);
        let tag = || "service:a".to_owned();
        let of = |reaped| sessions(&processes, [(10, tag(), reaped), (30, tag(), reaped)].into_iter());
        assert_eq!(of(None).len(), 2);
        assert_eq!(of(Some(Ticks::now())), HashMap::from([(10, tag())]));
        assert_eq!(of(Some(Ticks::default())), HashMap::new());
    }
}
