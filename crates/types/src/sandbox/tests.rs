//! Properties of the state machine, with a crash and restart possible between any two transitions.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn end_cause() -> impl Strategy<Value = EndCause> {
    prop_oneof![
        Just(EndCause::Killed { by: "k".into() }),
        Just(EndCause::Expired),
        Just(EndCause::OutOfMemory),
        Just(EndCause::GuestDied),
        Just(EndCause::Lost),
        Just(EndCause::DiskLost),
    ]
}

fn pause_cause() -> impl Strategy<Value = PauseCause> {
    prop_oneof![
        Just(PauseCause::Asked { by: "k".into() }),
        Just(PauseCause::Timeout),
        Just(PauseCause::Idle),
        Just(PauseCause::Failed { reason: "died".into() }),
    ]
}

fn keep() -> impl Strategy<Value = Kept> {
    prop_oneof![
        4 => Just(Kept::Ram),
        4 => (1..9_u32).prop_map(|generation| Kept::Checkpoint { generation }),
        4 => Just(Kept::Disk),
        1 => (1..9_u32, any::<bool>()).prop_map(|(generation, whole)| Kept::Archive { generation, whole }),
    ]
}

fn transition() -> impl Strategy<Value = Transition> {
    prop_oneof![
        4 => Just(Transition::Started),
        4 => (keep(), pause_cause()).prop_map(|(keep, why)| Transition::Pause { keep, why }),
        4 => Just(Transition::Paused),
        1 => Just(Transition::MemoryLost),
        1 => Just(Transition::PauseFailed),
        4 => Just(Transition::Resume),
        1 => Just(Transition::ResumeFailed),
        4 => (any::<bool>(), 1..9_u32).prop_map(|(whole, generation)| Transition::Archive { whole, generation }),
        4 => Just(Transition::Archived),
        1 => Just(Transition::ArchiveFailed),
        4 => Just(Transition::Restored),
        2 => end_cause().prop_map(Transition::Fail),
        1 => end_cause().prop_map(Transition::End),
        1 => Just(Transition::Removed),
    ]
}

/// A transition, or a crash after which the processes exist or not.
fn happening() -> impl Strategy<Value = Result<Transition, Seen>> {
    prop_oneof![
        5 => transition().prop_map(Ok),
        1 => prop_oneof![Just(Seen::Processes), Just(Seen::NoProcesses)].prop_map(Err),
    ]
}

fn apply(state: &State, what: Result<Transition, Seen>) -> State {
    let transition = match what {
        Ok(transition) => Some(transition),
        Err(seen) => state.on_restart(seen),
    };
    transition.and_then(|transition| state.apply(transition).ok()).unwrap_or_else(|| state.clone())
}

/// The transition that the driver applies in an unsettled state when everything works.
fn driven(state: &State) -> Option<Transition> {
    match state {
        State::Creating => Some(Transition::Started),
        State::Pausing { .. } => Some(Transition::Paused),
        State::Resuming { from: Kept::Archive { .. }, .. } => Some(Transition::Restored),
        State::Resuming { .. } => Some(Transition::Started),
        State::Archiving { .. } => Some(Transition::Archived),
        State::Ending { .. } => Some(Transition::Removed),
        State::Running | State::Paused { .. } | State::Failed { .. } | State::Ended { .. } => None,
    }
}

/// The transition that the driver applies in an unsettled state when its work fails, where there is one.
fn rolled_back(state: &State) -> Option<Transition> {
    match state {
        State::Pausing { to, .. } if to.has_memory() => Some(Transition::PauseFailed),
        State::Resuming { .. } => Some(Transition::ResumeFailed),
        State::Archiving { .. } => Some(Transition::ArchiveFailed),
        _ => None,
    }
}

proptest! {
    /// The first cause stays, an ended sandbox stays ended, and a kill ends it in two transitions from any state.
    #[test]
    fn sandboxes_end_once(happenings in proptest::collection::vec(happening(), 0..40)) {
        let mut state = State::Creating;
        let mut first: Option<EndCause> = None;
        for what in happenings {
            let before = state.clone();
            state = apply(&state, what);
            if first.is_none() { first = state.cause().cloned() }
            prop_assert_eq!(state.cause(), first.as_ref());
            if matches!(before, State::Ended { .. }) { prop_assert_eq!(&state, &before) }
        }
        if state.cause().is_none() {
            state = state.apply(Transition::End(EndCause::Expired)).expect("living sandboxes can end");
        }
        if state.holds_resources() {
            state = state.apply(Transition::Removed).expect("ending sandboxes can be removed");
        }
        prop_assert!(!state.holds_resources());
    }

    /// No state is stuck: from every reachable state the driver settles it in at most three transitions, and then the
    /// sandbox can be paused, resumed and recovered. Where work can fail, the rollback is allowed and leads to a
    /// settled state.
    #[test]
    fn every_state_settles(happenings in proptest::collection::vec(happening(), 0..40)) {
        let mut state = State::Creating;
        for what in happenings { state = apply(&state, what) }
        if let Some(back) = rolled_back(&state) {
            let back = state.apply(back).expect("failed work can be rolled back");
            prop_assert!(back.is_settled(), "{:?}", back);
        }
        let mut steps = 0;
        while let Some(transition) = driven(&state) {
            prop_assert!(!state.is_settled());
            state = state.apply(transition).expect("the driver's transition is allowed");
            steps += 1;
            prop_assert!(steps <= 3, "{:?}", state);
        }
        prop_assert!(state.is_settled());
        let pause = state.apply(Transition::Pause { keep: Kept::Ram, why: PauseCause::Idle });
        match &state {
            State::Running => prop_assert!(pause.is_ok()),
            State::Failed { .. } => prop_assert!(pause.is_ok() && state.apply(Transition::Resume).is_ok()),
            State::Paused { .. } => prop_assert!(state.apply(Transition::Resume).is_ok()),
            _ => prop_assert!(!state.holds_resources()),
        }
    }

    /// The disk is where the state says, through every crash: it leaves the pool only by a completed archive and
    /// returns only by a restore.
    #[test]
    fn the_disk_is_in_the_pool_or_archived(happenings in proptest::collection::vec(happening(), 0..60)) {
        let mut state = State::Creating;
        let mut archived: Option<u32> = None;
        for what in happenings {
            let next = apply(&state, what.clone());
            if next != state {
                match (&what, &next) {
                    (Ok(Transition::Archived), State::Paused { kept: Kept::Archive { generation, .. }, .. }) => archived = Some(*generation),
                    (Ok(Transition::Restored), _) => archived = None,
                    _ => {}
                }
            }
            state = next;
            match &state {
                State::Paused { kept: Kept::Archive { generation, .. }, .. }
                | State::Resuming { from: Kept::Archive { generation, .. }, .. } => prop_assert_eq!(archived, Some(*generation)),
                State::Ending { .. } | State::Ended { .. } => {}
                _ => prop_assert_eq!(archived, None),
            }
        }
    }

    /// A checkpoint counts only when the pause that wrote it was completed, and only a lost checkpoint, a start, a
    /// pause to disk or the end of the sandbox gives it up: a restart never does.
    #[test]
    fn a_checkpoint_survives_restarts(happenings in proptest::collection::vec(happening(), 0..60)) {
        fn checkpoint(state: &State) -> Option<u32> {
            match state {
                State::Paused { kept: Kept::Checkpoint { generation }, .. }
                | State::Resuming { from: Kept::Checkpoint { generation }, .. } => Some(*generation),
                _ => None,
            }
        }
        let mut state = State::Creating;
        for what in happenings {
            let next = apply(&state, what.clone());
            match (checkpoint(&state), checkpoint(&next)) {
                (None, Some(generation)) => {
                    let pausing = matches!(state, State::Pausing { to: Kept::Checkpoint { generation: g }, .. } if g == generation);
                    prop_assert!(pausing && what == Ok(Transition::Paused), "{:?} {:?}", state, what);
                }
                (Some(before), Some(after)) => prop_assert_eq!(before, after),
                (Some(_), None) => prop_assert!(
                    matches!(
                        what,
                        Ok(Transition::MemoryLost | Transition::Started | Transition::Pause { keep: Kept::Disk, .. } | Transition::End(_))
                    ),
                    "{:?} {:?}", state, what
                ),
                (None, None) => {}
            }
            state = next;
        }
    }

    #[test]
    fn states_survive_json(happenings in proptest::collection::vec(happening(), 0..20)) {
        let mut state = State::Creating;
        for what in happenings {
            state = apply(&state, what);
            let text = serde_json::to_string(&state).expect("json");
            prop_assert_eq!(serde_json::from_str::<State>(&text).expect("json"), state.clone());
        }
    }
}

/// Rows of the first release stay readable, and existing states are written in the same form.
#[test]
fn stored_states_keep_their_form() {
    let asked = || PauseCause::Asked { by: "k1".into() };
    let paused = |kept| State::Paused { kept, why: PauseCause::Timeout };
    for (text, state) in [
        (r#"{"state":"creating"}"#, State::Creating),
        (r#"{"state":"running"}"#, State::Running),
        (
            r#"{"state":"pausing","to":{"kind":"memory"},"why":{"kind":"asked","by":"k1"}}"#,
            State::Pausing { to: Kept::Ram, why: asked() },
        ),
        (r#"{"state":"paused","rest":{"kind":"memory"},"why":{"kind":"timeout"}}"#, paused(Kept::Ram)),
        (r#"{"state":"paused","rest":{"kind":"disk"},"why":{"kind":"timeout"}}"#, paused(Kept::Disk)),
        (
            r#"{"state":"paused","rest":{"kind":"archive","generation":2,"whole":false},"why":{"kind":"timeout"}}"#,
            paused(Kept::Archive { generation: 2, whole: false }),
        ),
        (
            r#"{"state":"resuming","from":{"kind":"memory"},"why":{"kind":"idle"}}"#,
            State::Resuming { from: Kept::Ram, why: PauseCause::Idle },
        ),
        (
            r#"{"state":"resuming","from":{"kind":"archive","generation":1,"whole":true},"why":{"kind":"failed","reason":"died"}}"#,
            State::Resuming {
                from: Kept::Archive { generation: 1, whole: true },
                why: PauseCause::Failed { reason: "died".into() },
            },
        ),
        (
            r#"{"state":"archiving","generation":3,"whole":true,"why":{"kind":"asked","by":"k1"}}"#,
            State::Archiving { generation: 3, whole: true, why: asked() },
        ),
        (r#"{"state":"failed","cause":{"kind":"out_of_memory"}}"#, State::Failed { cause: EndCause::OutOfMemory }),
        (
            r#"{"state":"ending","cause":{"kind":"killed","by":"k1"}}"#,
            State::Ending { cause: EndCause::Killed { by: "k1".into() } },
        ),
        (r#"{"state":"ended","cause":{"kind":"expired"}}"#, State::Ended { cause: EndCause::Expired }),
    ] {
        assert_eq!(serde_json::from_str::<State>(text).expect(text), state);
        assert_eq!(serde_json::to_string(&state).expect("json"), text);
    }
    // Added later.
    let kept = serde_json::to_value(Kept::Checkpoint { generation: 4 }).expect("json");
    assert_eq!(kept, json!({ "kind": "checkpoint", "generation": 4 }));
}
