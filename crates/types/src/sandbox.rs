//! The life of a sandbox as a pure state machine. The store keeps the state; lifecycle brings the world to it.
//!
//! ```text
//! creating ─up─▶ running ─pause─▶ pausing ─rested─▶ paused ─resume─▶ resuming ─up─▶ running
//!                   │                                 ▲ └─archive─▶ archiving ─archived─▶ paused (in the archive)
//!                   └─fail─▶ failed ─pause, resume────┘
//! any living state ─end─▶ ending ─swept─▶ ended
//! ```
//!
//! States that end in *-ing* are durable intents: after a crash the work goes on from them. `ended` is the tombstone that later says why.

mod cause;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use cause::{EndCause, PauseCause};

/// How a sleeping sandbox is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Rest {
    /// Its processes stand still, with everything they have in memory.
    Memory,
    /// Only its disk is there; it will boot afresh.
    Disk,
    /// Its disk is packed in cold storage, and not in the pool.
    Archive {
        /// Which of its archives counts: a crash may leave others.
        generation: u32,
        /// Whether everything is in it, or only what its owner marked.
        whole: bool,
    },
}

/// What of a sandbox is in the world, as a starting server finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Its processes are there.
    Processes,
    /// At most its disk is.
    NoProcesses,
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Accepted, not up yet.
    Creating,
    /// Up.
    Running,
    /// To be laid to rest.
    Pausing {
        /// How: [`Rest::Memory`] or [`Rest::Disk`].
        to: Rest,
        /// Why.
        why: PauseCause,
    },
    /// Asleep.
    Paused {
        /// How it is kept.
        rest: Rest,
        /// Why.
        why: PauseCause,
    },
    /// To be woken.
    Resuming {
        /// How it was kept.
        from: Rest,
        /// Why it slept.
        why: PauseCause,
    },
    /// Asleep; its disk is on the way to cold storage, and still in the pool.
    Archiving {
        /// The archive that is being written.
        generation: u32,
        /// Whether everything goes into it.
        whole: bool,
        /// Why it sleeps.
        why: PauseCause,
    },
    /// It ended by itself. Its disk is there, and it can be resumed from that.
    Failed {
        /// What happened.
        cause: EndCause,
    },
    /// To be removed; not everything is yet.
    Ending {
        /// Why.
        cause: EndCause,
    },
    /// Gone, nothing is left.
    Ended {
        /// Why.
        cause: EndCause,
    },
}

/// What can happen to a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It is up.
    Up,
    /// It shall sleep: with its memory, or with its disk alone.
    Pause {
        /// Whether its processes stay.
        memory: bool,
        /// Why.
        why: PauseCause,
    },
    /// It sleeps.
    Rested,
    /// Its processes are not there any more; only its disk is.
    MemoryLost,
    /// It could not be laid to rest, and goes on.
    StayUp,
    /// It shall wake.
    Resume,
    /// It could not be woken, and sleeps on.
    SleepOn,
    /// Its disk shall go to cold storage.
    Archive {
        /// Whether all of it, or only what its owner marked.
        whole: bool,
        /// Greater than that of every archive before.
        generation: u32,
    },
    /// Its archive is complete and verified.
    Archived,
    /// Its disk came back from cold storage.
    Restored,
    /// It ended by itself.
    Fail(EndCause),
    /// It shall be removed.
    End(EndCause),
    /// Nothing of it is left in the world.
    Swept,
}

/// A step that the state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a sandbox that is {from} cannot take the step {step:?}")]
pub struct Refused {
    /// Name of the state.
    pub from: &'static str,
    /// The step.
    pub step: Step,
}

impl State {
    /// The state's name, as the store and the events know it.
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

    /// Why it is ending or has ended.
    pub fn cause(&self) -> Option<&EndCause> {
        match self {
            State::Ending { cause } | State::Ended { cause } => Some(cause),
            _ => None,
        }
    }

    /// Whether something of it may be in the world.
    pub fn holds_resources(&self) -> bool {
        !matches!(self, State::Ended { .. })
    }

    /// Whether it takes one of the places for sandboxes that are up. Sleeping and failed ones do not.
    pub fn takes_place(&self) -> bool {
        matches!(self, State::Creating | State::Running | State::Pausing { .. } | State::Resuming { .. })
    }

    /// Whether clients know it as asleep: it can be resumed.
    pub fn is_asleep(&self) -> bool {
        matches!(self, State::Pausing { .. } | State::Paused { .. } | State::Archiving { .. })
    }

    /// Whether nothing has to be done about it.
    pub fn is_settled(&self) -> bool {
        matches!(self, State::Running | State::Paused { .. } | State::Failed { .. } | State::Ended { .. })
    }

    /// The state after a step. The first cause to end a sandbox stays.
    pub fn take(&self, step: Step) -> Result<State, Refused> {
        use State as S;
        match (self.clone(), step) {
            (S::Creating | S::Resuming { from: Rest::Memory | Rest::Disk, .. }, Step::Up) => Ok(S::Running),

            (S::Running, Step::Pause { memory, why }) => {
                Ok(S::Pausing { to: if memory { Rest::Memory } else { Rest::Disk }, why })
            }
            // One that sleeps with its memory may give that up.
            (S::Paused { rest: Rest::Memory, .. }, Step::Pause { memory: false, why })
            | (S::Failed { .. }, Step::Pause { why, .. }) => Ok(S::Pausing { to: Rest::Disk, why }),
            (S::Pausing { to, why }, Step::Rested) => Ok(S::Paused { rest: to, why }),
            (S::Pausing { to: Rest::Memory, .. }, Step::StayUp) => Ok(S::Running),

            (S::Pausing { to: Rest::Memory, why }, Step::MemoryLost) => Ok(S::Pausing { to: Rest::Disk, why }),
            (S::Paused { rest: Rest::Memory, why }, Step::MemoryLost) => Ok(S::Pausing { to: Rest::Disk, why }),
            (S::Resuming { from: Rest::Memory, why }, Step::MemoryLost) => Ok(S::Resuming { from: Rest::Disk, why }),

            (S::Paused { rest, why }, Step::Resume) => Ok(S::Resuming { from: rest, why }),
            (S::Archiving { why, .. }, Step::Resume) => Ok(S::Resuming { from: Rest::Disk, why }),
            (S::Failed { cause }, Step::Resume) => {
                Ok(S::Resuming { from: Rest::Disk, why: PauseCause::Failed { reason: cause.describe() } })
            }
            (S::Resuming { from: Rest::Archive { .. }, why }, Step::Restored) => {
                Ok(S::Resuming { from: Rest::Disk, why })
            }
            (S::Resuming { from, why }, Step::SleepOn) => Ok(S::Paused { rest: from, why }),

            (S::Paused { rest: Rest::Disk, why }, Step::Archive { whole, generation }) => {
                Ok(S::Archiving { generation, whole, why })
            }
            (S::Archiving { generation, whole, why }, Step::Archived) => {
                Ok(S::Paused { rest: Rest::Archive { generation, whole }, why })
            }
            (S::Archiving { why, .. }, Step::SleepOn) => Ok(S::Paused { rest: Rest::Disk, why }),

            (S::Running, Step::Fail(cause)) => Ok(S::Failed { cause }),

            (S::Ending { cause }, Step::Swept) => Ok(S::Ended { cause }),
            (from @ (S::Ending { .. } | S::Ended { .. }), step @ Step::End(_)) => {
                Err(Refused { from: from.name(), step })
            }
            (_, Step::End(cause)) => Ok(S::Ending { cause }),
            (from, step) => Err(Refused { from: from.name(), step }),
        }
    }

    /// The step that a starting server takes for a sandbox in this state, given what it sees of it. What a state wants done is done
    /// afterwards, as always.
    pub fn on_restart(&self, seen: Seen) -> Option<Step> {
        match (self, seen) {
            // Whoever asked for it was never answered.
            (State::Creating, _) => {
                Some(Step::End(EndCause::CreateFailed { message: "the server was restarted".into() }))
            }
            (State::Running, Seen::NoProcesses) => Some(Step::Fail(EndCause::Lost)),
            (
                State::Pausing { to: Rest::Memory, .. }
                | State::Paused { rest: Rest::Memory, .. }
                | State::Resuming { from: Rest::Memory, .. },
                Seen::NoProcesses,
            ) => Some(Step::MemoryLost),
            _ => None,
        }
    }
}
