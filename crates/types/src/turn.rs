//! Turns of a chat: what is done next follows from what is known of the turn, and never from what a process remembers. After a crash the
//! same facts lead to the same decision.

use crate::chat::{CallStatus, MessageStatus};

word! {
    /// How far a turn is.
    TurnState {
        /// Another turn of the chat runs.
        #[default]
        Queued => "queued",
        /// The model writes, or tools run.
        Running => "running",
        /// A person or the client must do something.
        Waiting => "waiting",
        /// The model has answered.
        Complete => "complete",
        /// It ended without an answer; its reason says why.
        Failed => "failed",
        /// A person stopped it.
        Cancelled => "cancelled",
        /// The server ended too often while it ran.
        Interrupted => "interrupted",
    }
}

impl TurnState {
    /// Whether nothing more happens.
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Cancelled | Self::Interrupted)
    }
}

/// How often the model is called again because the server ended, or the provider's answer broke off, while it wrote.
pub const MAX_INTERRUPTIONS: u32 = 2;
/// Equal calls with equal results after which the model gets a note.
pub const NOTE_REPEATS: u32 = 3;
/// Those after which the turn fails.
pub const MAX_REPEATS: u32 = 5;

/// A call of a tool in the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallFacts {
    pub status: CallStatus,
    /// Whether it changes nothing.
    pub read_only: bool,
}

/// What the model said last in a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Last {
    /// Nothing: it has not been called yet.
    User,
    /// A message.
    Assistant {
        status: MessageStatus,
        /// Its calls, in their order.
        calls: Vec<CallFacts>,
    },
}

/// What is known of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Whether a person wants it to stop.
    pub cancel: bool,
    pub last: Last,
    /// Whether a person wrote something after it.
    pub steered: bool,
    /// Calls of the model so far, and how many are allowed.
    pub steps: u32,
    pub max_steps: u32,
    /// How often the model was cut off.
    pub interruptions: u32,
    /// Whether the time or the cost of the turn is used up.
    pub out_of_time: bool,
    pub out_of_money: bool,
    /// The most that an equal call had an equal result.
    pub repeats: u32,
}

/// Why a turn ends without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    Steps,
    Time,
    Cost,
    Stuck,
    /// The model's answer failed.
    Model,
}

impl Failure {
    /// The word in the turn's reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steps => "step_limit",
            Self::Time => "time_limit",
            Self::Cost => "cost_limit",
            Self::Stuck => "stuck",
            Self::Model => "model_failed",
        }
    }
}

/// What is done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A message that was being written when the server ended is marked as interrupted.
    MarkInterrupted,
    /// The model is called.
    CallModel,
    /// These calls run, all at once. Those that were running already are looked after.
    RunCalls(Vec<usize>),
    /// A person or the client must do something about this call.
    Wait(usize),
    Complete,
    Fail(Failure),
    Cancel,
    /// It was cut off too often.
    Interrupt,
}

/// What is done next.
pub fn next(facts: &Facts) -> Step {
    if facts.cancel {
        return Step::Cancel;
    }
    match &facts.last {
        Last::User => call_model(facts),
        Last::Assistant { status, calls } => match status {
            MessageStatus::Streaming => Step::MarkInterrupted,
            MessageStatus::Interrupted if facts.interruptions > MAX_INTERRUPTIONS => Step::Interrupt,
            MessageStatus::Interrupted => call_model(facts),
            MessageStatus::Failed => Step::Fail(Failure::Model),
            MessageStatus::Cancelled => Step::Cancel,
            MessageStatus::Complete => after_message(facts, calls),
        },
    }
}

fn after_message(facts: &Facts, calls: &[CallFacts]) -> Step {
    if calls.is_empty() {
        return if facts.steered { call_model(facts) } else { Step::Complete };
    }
    let open: Vec<usize> =
        calls.iter().enumerate().filter(|(_, call)| !call.status.is_done()).map(|(index, _)| index).collect();
    let Some(first) = open.first().copied() else { return call_model(facts) };
    let runs = |index: &usize| matches!(calls[*index].status, CallStatus::Pending | CallStatus::Running);
    // What only reads cannot disturb anything else.
    if calls.iter().all(|call| call.read_only) {
        let now: Vec<usize> = open.into_iter().filter(runs).collect();
        return if now.is_empty() { Step::Wait(first) } else { Step::RunCalls(now) };
    }
    if runs(&first) { Step::RunCalls(vec![first]) } else { Step::Wait(first) }
}

fn call_model(facts: &Facts) -> Step {
    match () {
        () if facts.repeats >= MAX_REPEATS => Step::Fail(Failure::Stuck),
        () if facts.out_of_time => Step::Fail(Failure::Time),
        () if facts.out_of_money => Step::Fail(Failure::Cost),
        () if facts.steps >= facts.max_steps => Step::Fail(Failure::Steps),
        () => Step::CallModel,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call() -> impl Strategy<Value = CallFacts> {
        let status = prop::sample::select(vec![
            CallStatus::Pending,
            CallStatus::Approval,
            CallStatus::Client,
            CallStatus::Running,
            CallStatus::Success,
            CallStatus::Error,
        ]);
        (status, any::<bool>()).prop_map(|(status, read_only)| CallFacts { status, read_only })
    }

    fn facts() -> impl Strategy<Value = Facts> {
        let status = prop::sample::select(vec![
            MessageStatus::Streaming,
            MessageStatus::Complete,
            MessageStatus::Interrupted,
            MessageStatus::Cancelled,
            MessageStatus::Failed,
        ]);
        let last = prop_oneof![
            Just(Last::User),
            (status, prop::collection::vec(call(), 0..6)).prop_map(|(status, calls)| Last::Assistant { status, calls }),
        ];
        (any::<(bool, bool)>(), last, 0..8u32, 0..4u32, any::<bool>(), any::<bool>(), 0..7u32).prop_map(
            |((cancel, steered), last, steps, interruptions, out_of_time, out_of_money, repeats)| Facts {
                cancel,
                steered,
                last,
                steps,
                max_steps: 5,
                interruptions,
                out_of_time,
                out_of_money,
                repeats,
            },
        )
    }

    proptest! {
        #[test]
        fn decisions_fit_the_facts(facts in facts()) {
            match next(&facts) {
                Step::Cancel => {
                    let stopped =
                        matches!(facts.last, Last::Assistant { status: MessageStatus::Cancelled, .. });
                    prop_assert!(facts.cancel || stopped);
                }
                Step::CallModel => {
                    prop_assert!(!facts.cancel && !facts.out_of_time && !facts.out_of_money);
                    prop_assert!(facts.steps < facts.max_steps && facts.repeats < MAX_REPEATS);
                    if let Last::Assistant { status: MessageStatus::Complete, calls } = &facts.last {
                        prop_assert!(facts.steered || !calls.is_empty());
                        prop_assert!(calls.iter().all(|call| call.status.is_done()), "open calls are never left");
                    }
                }
                Step::RunCalls(indices) => {
                    let Last::Assistant { status, calls } = &facts.last else { panic!("no calls") };
                    prop_assert_eq!(*status, MessageStatus::Complete);
                    prop_assert!(!indices.is_empty());
                    prop_assert!(indices.iter().all(|i| matches!(calls[*i].status, CallStatus::Pending | CallStatus::Running)));
                    if indices.len() > 1 {
                        prop_assert!(calls.iter().all(|call| call.read_only));
                    }
                    if !calls.iter().all(|call| call.read_only) {
                        prop_assert!(calls[..indices[0]].iter().all(|call| call.status.is_done()), "in order");
                    }
                }
                Step::Wait(index) => {
                    let Last::Assistant { calls, .. } = &facts.last else { panic!("no calls") };
                    prop_assert!(matches!(calls[index].status, CallStatus::Approval | CallStatus::Client));
                }
                Step::Complete => {
                    prop_assert!(!facts.steered, "a person waits for an answer");
                    prop_assert_eq!(&facts.last, &Last::Assistant { status: MessageStatus::Complete, calls: Vec::new() });
                }
                Step::Fail(_) | Step::MarkInterrupted | Step::Interrupt => prop_assert!(!facts.cancel),
            }
        }

        /// Whatever the model and the tools do, a turn ends or waits: every step brings it nearer to a limit.
        #[test]
        fn every_turn_ends_or_waits(script in prop::collection::vec((0..4usize, 0..3u8, any::<bool>()), 1..64)) {
            let mut script = script.into_iter().cycle();
            let mut facts = Facts {
                cancel: false, steered: false, last: Last::User, steps: 0, max_steps: 5, interruptions: 0, out_of_time: false,
                out_of_money: false, repeats: 0,
            };
            for _ in 0..200 {
                match next(&facts) {
                    Step::MarkInterrupted => {
                        facts.interruptions += 1;
                        facts.last = Last::Assistant { status: MessageStatus::Interrupted, calls: Vec::new() };
                    }
                    Step::CallModel => {
                        facts.steps += 1;
                        let (count, how, read_only) = script.next().unwrap();
                        let status = if how == 0 { MessageStatus::Streaming } else { MessageStatus::Complete };
                        let first = if how == 2 { CallStatus::Approval } else { CallStatus::Pending };
                        let calls = vec![CallFacts { status: first, read_only }; count];
                        facts.last = Last::Assistant { status, calls };
                    }
                    Step::RunCalls(indices) => {
                        let Last::Assistant { calls, .. } = &mut facts.last else { panic!() };
                        for index in indices {
                            calls[index].status = CallStatus::Success;
                        }
                    }
                    Step::Wait(_) | Step::Complete | Step::Fail(_) | Step::Cancel | Step::Interrupt => return Ok(()),
                }
            }
            prop_assert!(false, "it goes on for ever");
        }
    }
}
