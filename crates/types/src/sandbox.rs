//! The states of a sandbox as a pure state machine. The store keeps the state; lifecycle makes the host match it.
//!
//! ```text
//! creating ─started─▶ running ─pause─▶ pausing ─paused─▶ paused ─resume─▶ resuming ─started─▶ running
//!                        │                                 ▲ └─archive─▶ archiving ─archived─▶ paused (archive)
//!                        └─fail─▶ failed ─pause, resume────┘
//! any state but these two ─end─▶ ending ─removed─▶ ended
//! ```
//!
//! States that end in *-ing* are durable intents: after a crash the work continues from them. `ended` is a tombstone that
//! records the cause.

mod cause;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use cause::{EndCause, PauseCause};

/// What is kept of a paused sandbox. The serialized names are those of the first release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Kept {
    /// Its frozen processes, with their memory in RAM. Lost when the host restarts.
    #[serde(rename = "memory")]
    Ram,
    /// Its processes and memory, written to disk. Uses no RAM and survives a restart of the host.
    Checkpoint {
        /// Which of its checkpoints counts: a crash may leave others.
        generation: u32,
    },
    /// Its disk; resuming boots it again.
    Disk,
    /// Its disk, moved to cold storage and removed from the pool.
    Archive {
        /// Which of its archives counts: a crash may leave others.
        generation: u32,
        /// Whether the archive has the whole disk, or only the paths that recycling keeps.
        whole: bool,
    },
}

impl Kept {
    /// Whether the sandbox's processes and memory are kept.
    pub fn has_memory(self) -> bool {
        matches!(self, Kept::Ram | Kept::Checkpoint { .. })
    }
}

/// What a starting server finds of a sandbox on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Its processes are there.
    Processes,
    /// At most its disk is there.
    NoProcesses,
}

/// The state of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Accepted, not running yet.
    Creating,
    /// Running.
    Running,
    /// To be paused.
    Pausing {
        /// What will be kept; never [`Kept::Archive`].
        to: Kept,
        /// Cause of the pause.
        why: PauseCause,
    },
    /// Paused.
    Paused {
        /// What is kept. Stored as `rest`, its name in the first release.
        #[serde(rename = "rest")]
        kept: Kept,
        /// Cause of the pause.
        why: PauseCause,
    },
    /// To be resumed.
    Resuming {
        /// What was kept.
        from: Kept,
        /// Cause of the pause.
        why: PauseCause,
    },
    /// Paused; its disk is being archived and still in the pool.
    Archiving {
        /// The archive that is being written.
        generation: u32,
        /// Whether the archive gets the whole disk.
        whole: bool,
        /// Cause of the pause.
        why: PauseCause,
    },
    /// It stopped by itself. Its disk is kept and it can be resumed from that.
    Failed {
        /// What happened.
        cause: EndCause,
    },
    /// To be removed; some of its resources may still be there.
    Ending {
        /// Cause of the end.
        cause: EndCause,
    },
    /// Removed; nothing is left.
    Ended {
        /// Cause of the end.
        cause: EndCause,
    },
}

/// An input of the state machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// It runs.
    Started,
    /// A pause is requested.
    Pause {
        /// What to keep; [`Kept::Archive`] is refused.
        keep: Kept,
        /// Cause of the pause.
        why: PauseCause,
    },
    /// It is paused.
    Paused,
    /// Its processes or its checkpoint are gone; only its disk is left.
    MemoryLost,
    /// The pause failed; it still runs.
    PauseFailed,
    /// A resume is requested.
    Resume,
    /// The resume failed; it stays paused.
    ResumeFailed,
    /// Archiving its disk is requested.
    Archive {
        /// The whole disk, or only the paths that recycling keeps.
        whole: bool,
        /// Greater than that of every earlier archive.
        generation: u32,
    },
    /// Its archive is complete and verified.
    Archived,
    /// Archiving failed or was interrupted; its disk is still in the pool.
    ArchiveFailed,
    /// Its disk was restored from cold storage.
    Restored,
    /// It stopped by itself.
    Fail(EndCause),
    /// Its end is requested.
    End(EndCause),
    /// Nothing of it is left on the host.
    Removed,
}

/// A transition that the state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a sandbox that is {from} does not allow the transition {transition:?}")]
pub struct Refused {
    /// Name of the state.
    pub from: &'static str,
    /// The transition.
    pub transition: Transition,
}

impl State {
    /// The state's name in the store and in events.
    pub fn name(&self) -> &'static str {
        match self {
            State::Creating => "creating",
            State::Running => "running",
            State::Pausing { .. } => "pausing",
            State::Paused { .. } => "paused",
            State::Resuming { .. } => "resuming",
            State::Archiving { .. } => "archiving",
            State::Failed { .. } => "failed",
            State::Ending { .. } => "ending",
            State::Ended { .. } => "ended",
        }
    }

    /// Cause of the end, if it is ending or has ended.
    pub fn cause(&self) -> Option<&EndCause> {
        match self {
            State::Ending { cause } | State::Ended { cause } => Some(cause),
            _ => None,
        }
    }

    /// Whether it may have resources on the host or in cold storage.
    pub fn holds_resources(&self) -> bool {
        !matches!(self, State::Ended { .. })
    }

    /// Whether it counts towards the limit of running sandboxes. Paused and failed ones do not.
    pub fn uses_capacity(&self) -> bool {
        matches!(self, State::Creating | State::Running | State::Pausing { .. } | State::Resuming { .. })
    }

    /// Whether clients see it as paused, so that it can be resumed.
    pub fn is_paused(&self) -> bool {
        matches!(self, State::Pausing { .. } | State::Paused { .. } | State::Archiving { .. })
    }

    /// Whether the driver has nothing to do for it.
    pub fn is_settled(&self) -> bool {
        matches!(self, State::Running | State::Paused { .. } | State::Failed { .. } | State::Ended { .. })
    }

    /// The state after a transition. The first cause to end a sandbox stays.
    pub fn apply(&self, transition: Transition) -> Result<State, Refused> {
        use State as S;
        use Transition as T;
        match (self.clone(), transition) {
            (S::Creating | S::Resuming { from: Kept::Ram | Kept::Checkpoint { .. } | Kept::Disk, .. }, T::Started) => {
                Ok(S::Running)
            }

            (S::Running, T::Pause { keep: keep @ (Kept::Ram | Kept::Checkpoint { .. } | Kept::Disk), why }) => {
                Ok(S::Pausing { to: keep, why })
            }
            // A paused sandbox may give up its memory; a failed one has none.
            (S::Paused { kept: Kept::Ram | Kept::Checkpoint { .. }, .. }, T::Pause { keep: Kept::Disk, why })
            | (S::Failed { .. }, T::Pause { why, .. }) => Ok(S::Pausing { to: Kept::Disk, why }),
            (S::Pausing { to, why }, T::Paused) => Ok(S::Paused { kept: to, why }),
            (S::Pausing { to, .. }, T::PauseFailed) if to.has_memory() => Ok(S::Running),

            (S::Pausing { to: kept, why } | S::Paused { kept, why }, T::MemoryLost) if kept.has_memory() => {
                Ok(S::Pausing { to: Kept::Disk, why })
            }
            (S::Resuming { from, why }, T::MemoryLost) if from.has_memory() => {
                Ok(S::Resuming { from: Kept::Disk, why })
            }

            (S::Paused { kept, why }, T::Resume) => Ok(S::Resuming { from: kept, why }),
            (S::Archiving { why, .. }, T::Resume) => Ok(S::Resuming { from: Kept::Disk, why }),
            (S::Failed { cause }, T::Resume) => {
                Ok(S::Resuming { from: Kept::Disk, why: PauseCause::Failed { reason: cause.describe() } })
            }
            (S::Resuming { from: Kept::Archive { .. }, why }, T::Restored) => Ok(S::Resuming { from: Kept::Disk, why }),
            (S::Resuming { from, why }, T::ResumeFailed) => Ok(S::Paused { kept: from, why }),

            (S::Paused { kept: Kept::Disk, why }, T::Archive { whole, generation }) => {
                Ok(S::Archiving { generation, whole, why })
            }
            (S::Archiving { generation, whole, why }, T::Archived) => {
                Ok(S::Paused { kept: Kept::Archive { generation, whole }, why })
            }
            (S::Archiving { why, .. }, T::ArchiveFailed) => Ok(S::Paused { kept: Kept::Disk, why }),

            (S::Running, T::Fail(cause)) => Ok(S::Failed { cause }),

            (S::Ending { cause }, T::Removed) => Ok(S::Ended { cause }),
            (from @ (S::Ending { .. } | S::Ended { .. }), transition @ T::End(_)) => {
                Err(Refused { from: from.name(), transition })
            }
            (_, T::End(cause)) => Ok(S::Ending { cause }),
            (from, transition) => Err(Refused { from: from.name(), transition }),
        }
    }

    /// The transition that a starting server applies to a sandbox in this state, given what it finds on the host. The driver then does
    /// what the new state asks for.
    pub fn on_restart(&self, seen: Seen) -> Option<Transition> {
        match (self, seen) {
            // The client was never answered.
            (State::Creating, _) => {
                Some(Transition::End(EndCause::CreateFailed { message: "the server was restarted".into() }))
            }
            (State::Running, Seen::NoProcesses) => Some(Transition::Fail(EndCause::Lost)),
            // A checkpoint counts only once `paused` is written, and then it survives: a resume starts over from it.
            (
                State::Pausing { to: Kept::Ram | Kept::Checkpoint { .. }, .. }
                | State::Paused { kept: Kept::Ram, .. }
                | State::Resuming { from: Kept::Ram, .. },
                Seen::NoProcesses,
            ) => Some(Transition::MemoryLost),
            _ => None,
        }
    }
}
