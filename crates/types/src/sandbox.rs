//! The life of a sandbox as a pure state machine. The store keeps the state; lifecycle brings the world to it.
//!
//! ```text
//! creating ──up──▶ running ──end(cause)──▶ ending(cause) ──swept──▶ ended(cause)
//!     └───────────────end(cause)──────────────▲
//! ```
//!
//! `ending` is the durable intent: from then on the sandbox is gone for every caller, and everything of it is being removed. `ended` is
//! the tombstone that later says why.

use serde::{Deserialize, Serialize};

/// Why a sandbox ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum EndCause {
    /// Somebody asked for it, with the API key of this name.
    Killed {
        /// The key's public id.
        by: String,
    },
    /// Its time was over.
    Expired,
    /// It could not be brought up.
    CreateFailed {
        /// What went wrong.
        message: String,
    },
    /// It ran out of memory and its guest daemon was killed.
    OutOfMemory,
    /// Its guest daemon died.
    GuestDied,
    /// It was not there any more when the server came back (the machine was restarted).
    Lost,
}

impl EndCause {
    /// Whether the sandbox failed, rather than being ended on purpose.
    pub fn is_failure(&self) -> bool {
        !matches!(self, EndCause::Killed { .. } | EndCause::Expired)
    }

    /// The cause in words that complete "the sandbox …".
    pub fn describe(&self) -> String {
        match self {
            EndCause::Killed { by } => format!("was killed by request of API key {by}"),
            EndCause::Expired => "reached its timeout and was killed".into(),
            EndCause::CreateFailed { message } => format!("could not be created: {message}"),
            EndCause::OutOfMemory => "ran out of memory and was killed".into(),
            EndCause::GuestDied => "ended because its guest daemon died".into(),
            EndCause::Lost => "was lost when the machine restarted".into(),
        }
    }
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Accepted, not up yet.
    Creating,
    /// Up.
    Running,
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
    /// It came up.
    Up,
    /// It shall end, or has ended by itself.
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
            State::Ending { .. } => "ending",
            State::Ended { .. } => "ended",
        }
    }

    /// Why it is ending or has ended.
    pub fn cause(&self) -> Option<&EndCause> {
        match self {
            State::Ending { cause } | State::Ended { cause } => Some(cause),
            State::Creating | State::Running => None,
        }
    }

    /// Whether something of it may be in the world.
    pub fn holds_resources(&self) -> bool {
        !matches!(self, State::Ended { .. })
    }

    /// The state after a step. The first cause to end a sandbox stays.
    pub fn take(&self, step: Step) -> Result<State, Refused> {
        match (self, step) {
            (State::Creating, Step::Up) => Ok(State::Running),
            (State::Creating | State::Running, Step::End(cause)) => Ok(State::Ending { cause }),
            (State::Ending { cause }, Step::Swept) => Ok(State::Ended { cause: cause.clone() }),
            (_, step) => Err(Refused { from: self.name(), step }),
        }
    }

    /// The step that a starting server takes for a sandbox in this state, given whether it is alive in the world.
    pub fn on_restart(&self, alive: bool) -> Option<Step> {
        match self {
            // Whoever asked for it was never answered.
            State::Creating => Some(Step::End(EndCause::CreateFailed { message: "the server was restarted".into() })),
            State::Running if !alive => Some(Step::End(EndCause::Lost)),
            State::Running | State::Ending { .. } | State::Ended { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cause() -> impl Strategy<Value = EndCause> {
        prop_oneof![
            Just(EndCause::Killed { by: "k".into() }),
            Just(EndCause::Expired),
            Just(EndCause::OutOfMemory),
            Just(EndCause::GuestDied),
            Just(EndCause::Lost),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![Just(Step::Up), cause().prop_map(Step::End), Just(Step::Swept)]
    }

    proptest! {
        /// Whatever happens in whatever order, with a server restart anywhere: the first cause stays, an ended sandbox
        /// never comes back, and from every state there is a way to the end.
        #[test]
        fn lives_end_once(steps in proptest::collection::vec((step(), any::<Option<bool>>()), 0..20)) {
            let mut state = State::Creating;
            let mut first: Option<EndCause> = None;
            for (step, restart) in steps {
                let before = state.clone();
                let taken = match restart {
                    Some(alive) => match state.on_restart(alive) {
                        Some(step) => state.take(step),
                        None => Ok(state.clone()),
                    },
                    None => state.take(step),
                };
                if let Ok(next) = taken { state = next }
                if first.is_none() { first = state.cause().cloned() }
                prop_assert_eq!(state.cause(), first.as_ref());
                if matches!(before, State::Ended { .. }) { prop_assert_eq!(&state, &before) }
            }
            if state.cause().is_none() {
                state = state.take(Step::End(EndCause::Expired)).expect("living sandboxes can end");
            }
            if state.holds_resources() {
                state = state.take(Step::Swept).expect("ending sandboxes can be swept");
            }
            prop_assert!(!state.holds_resources());
        }

        #[test]
        fn states_survive_json(c in cause()) {
            for state in [State::Creating, State::Running, State::Ending { cause: c.clone() }, State::Ended { cause: c.clone() }] {
                let text = serde_json::to_string(&state).expect("json");
                prop_assert_eq!(serde_json::from_str::<State>(&text).expect("json"), state);
            }
        }
    }
}
