//! Limits of all sandboxes together, on the directory that holds theirs.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::{Cgroups, at};
use crate::Error;
use crate::machine::Totals;

impl Cgroups {
    /// Limits all sandboxes together. Every limit is tried, also after an error: a limit below the present use is
    /// refused by version 1.
    pub fn set_totals(&self, totals: Totals) -> Vec<Error> {
        let memory = totals.memory.to_string();
        let mut limits = vec![("pids", "pids.max", totals.pids.to_string())];
        if self.unified {
            limits.push(("memory", "memory.max", memory));
        } else {
            limits.push(("memory", "memory.limit_in_bytes", memory));
            limits.push(("memory", "memory.kmem.tcp.limit_in_bytes", totals.socket_memory.to_string()));
        }
        let mut errors = Vec::new();
        for (controller, file, value) in limits {
            let Some(path) = self.home(controller).map(|home| home.join(file)) else { continue };
            match fs::write(&path, value) {
                // Not every kernel counts the memory of sockets.
                Err(error) if file.contains("kmem") && is_absent(error.kind()) => {}
                Err(error) => errors.push(at("write", &path)(error)),
                Ok(()) => {}
            }
        }
        errors
    }

    /// The limits of all sandboxes together as the kernel has them; 0 for one that it does not have.
    pub fn totals(&self) -> Totals {
        let read = |controller: &str, file: &str| {
            let text = self.home(controller).and_then(|home| fs::read_to_string(home.join(file)).ok());
            text.map(|text| super::number(&text)).unwrap_or_default()
        };
        Totals {
            pids: read("pids", "pids.max"),
            memory: read("memory", if self.unified { "memory.max" } else { "memory.limit_in_bytes" }),
            socket_memory: read("memory", "memory.kmem.tcp.limit_in_bytes"),
        }
    }

    /// Our directory for a controller.
    fn home(&self, controller: &str) -> Option<PathBuf> {
        let key = if self.unified { "" } else { controller };
        self.homes.iter().find(|(c, _)| c == key).map(|(_, home)| home.clone())
    }
}

/// A file that a kernel does not have: a cgroup directory refuses to create it.
pub(super) fn is_absent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

/// What the sockets of one sandbox may hold on version 1, where the memory limit does not count it: a sixteenth of its
/// memory. Beyond it, TCP shrinks its windows and datagrams are dropped.
pub(super) fn socket_memory(memory: u64) -> u64 {
    (memory / 16).clamp(16 << 20, 128 << 20)
}
