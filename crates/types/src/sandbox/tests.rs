//! Properties of the state machine, with a crash and restart possible between any two steps.

use proptest::prelude::*;

use super::*;

fn end_cause() -> impl Strategy<Value = EndCause> {
    prop_oneof![
        Just(EndCause::Killed { by: "k".into() }),
        Just(EndCause::Expired),
        Just(EndCause::OutOfMemory),
        Just(EndCause::GuestDied),
        Just(EndCause::Lost),
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

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Up),
        4 => (any::<bool>(), pause_cause()).prop_map(|(memory, why)| Step::Pause { memory, why }),
        4 => Just(Step::Rested),
        1 => Just(Step::MemoryLost),
        1 => Just(Step::StayUp),
        4 => Just(Step::Resume),
        1 => Just(Step::SleepOn),
        4 => (any::<bool>(), 1..9_u32).prop_map(|(whole, generation)| Step::Archive { whole, generation }),
        4 => Just(Step::Archived),
        4 => Just(Step::Restored),
        2 => end_cause().prop_map(Step::Fail),
        1 => end_cause().prop_map(Step::End),
        1 => Just(Step::Swept),
    ]
}

/// A step, or a crash after which the processes are there or not.
fn happening() -> impl Strategy<Value = Result<Step, Seen>> {
    prop_oneof![
        5 => step().prop_map(Ok),
        1 => prop_oneof![Just(Seen::Processes), Just(Seen::NoProcesses)].prop_map(Err),
    ]
}

fn apply(state: &State, what: Result<Step, Seen>) -> State {
    let step = match what {
        Ok(step) => Some(step),
        Err(seen) => state.on_restart(seen),
    };
    step.and_then(|step| state.take(step).ok()).unwrap_or_else(|| state.clone())
}

/// The step with which lifecycle answers a state that wants something done, when the world does what it is asked.
fn wanted(state: &State) -> Option<Step> {
    match state {
        State::Creating => Some(Step::Up),
        State::Pausing { .. } => Some(Step::Rested),
        State::Resuming { from: Rest::Archive { .. }, .. } => Some(Step::Restored),
        State::Resuming { .. } => Some(Step::Up),
        State::Archiving { .. } => Some(Step::Archived),
        State::Ending { .. } => Some(Step::Swept),
        State::Running | State::Paused { .. } | State::Failed { .. } | State::Ended { .. } => None,
    }
}

proptest! {
    /// The first cause stays, an ended sandbox never comes back, and whatever happened before, a kill ends it in two steps.
    #[test]
    fn lives_end_once(happenings in proptest::collection::vec(happening(), 0..40)) {
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
            state = state.take(Step::End(EndCause::Expired)).expect("living sandboxes can end");
        }
        if state.holds_resources() {
            state = state.take(Step::Swept).expect("ending sandboxes can be swept");
        }
        prop_assert!(!state.holds_resources());
    }

    /// Nothing is ever stuck: from every state that can be reached, the world's answers lead to rest in at most three steps, and from
    /// there the sandbox can be paused, resumed and recovered.
    #[test]
    fn every_state_comes_to_rest(happenings in proptest::collection::vec(happening(), 0..40)) {
        let mut state = State::Creating;
        for what in happenings { state = apply(&state, what) }
        let mut steps = 0;
        while let Some(step) = wanted(&state) {
            prop_assert!(!state.is_settled());
            state = state.take(step).expect("the world's answer is taken");
            steps += 1;
            prop_assert!(steps <= 3, "{:?}", state);
        }
        prop_assert!(state.is_settled());
        let pause = state.take(Step::Pause { memory: true, why: PauseCause::Idle });
        match &state {
            State::Running => prop_assert!(pause.is_ok()),
            State::Failed { .. } => prop_assert!(pause.is_ok() && state.take(Step::Resume).is_ok()),
            State::Paused { .. } => prop_assert!(state.take(Step::Resume).is_ok()),
            _ => prop_assert!(!state.holds_resources()),
        }
    }

    /// The disk of a living sandbox is where its state says, through every crash: it leaves the pool only by an archive that was
    /// completed, and comes back only by one that was restored.
    #[test]
    fn the_disk_is_never_nowhere(happenings in proptest::collection::vec(happening(), 0..60)) {
        let mut state = State::Creating;
        let mut archived: Option<u32> = None;
        for what in happenings {
            let next = apply(&state, what.clone());
            if next != state {
                match (&what, &next) {
                    (Ok(Step::Archived), State::Paused { rest: Rest::Archive { generation, .. }, .. }) => archived = Some(*generation),
                    (Ok(Step::Restored), _) => archived = None,
                    _ => {}
                }
            }
            state = next;
            match &state {
                State::Paused { rest: Rest::Archive { generation, .. }, .. }
                | State::Resuming { from: Rest::Archive { generation, .. }, .. } => prop_assert_eq!(archived, Some(*generation)),
                State::Ending { .. } | State::Ended { .. } => {}
                _ => prop_assert_eq!(archived, None),
            }
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
