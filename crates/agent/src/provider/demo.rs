//! The demo model: scripted, not an AI. It needs no key and no network, and shows with real calls of tools what a chat can do. What it
//! says next follows from the conversation alone.

mod scripts;
mod words;

use std::time::Duration;

use async_trait::async_trait;
use cabana_types::chat::StopReason;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::context::{request_tokens, text_tokens};
use crate::model::{
    Answer, CallResult, Model, ModelCall, ModelError, ModelMessage, ModelRequest, Piece, Tokens, UserPart,
};

/// What the demo model can do, as a person would ask for it.
pub const SUGGESTIONS: &[&str] = &[
    "Make a page with a counter and start it",
    "Analyse the CSV file that I uploaded",
    "Write tests that fail, then fix the code",
    "Compare three implementations side by side",
    "Find all TODO notes in a project",
    "Run a command that fails and explain why",
];
/// Time between two pieces, as if somebody wrote.
const DELAY: Duration = Duration::from_millis(8);

/// The demo model.
#[derive(Debug, Clone, Copy)]
pub struct Demo {
    delay: Duration,
}

impl Default for Demo {
    fn default() -> Self {
        Self { delay: DELAY }
    }
}

impl Demo {
    /// The demo model with another time between two pieces.
    pub fn with_delay(delay: Duration) -> Self {
        Self { delay }
    }
}

/// What the model says in one step.
#[derive(Debug, Default)]
struct Step {
    reasoning: String,
    text: String,
    calls: Vec<(&'static str, Value)>,
}

impl Step {
    fn say(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    fn think(mut self, reasoning: &str) -> Self {
        self.reasoning = reasoning.into();
        self
    }

    fn call(mut self, tool: &'static str, arguments: Value) -> Self {
        self.calls.push((tool, arguments));
        self
    }
}

/// What has happened since the person's last message.
struct Turn<'a> {
    request: &'a ModelRequest,
    /// Results of each step so far.
    results: Vec<&'a [CallResult]>,
}

impl Turn<'_> {
    fn has(&self, tool: &str) -> bool {
        self.request.tools.iter().any(|offered| offered.name == tool)
    }

    /// Whether the last step did what it should.
    fn went_well(&self) -> bool {
        self.results.last().is_none_or(|results| results.iter().all(|result| !result.is_error))
    }

    /// What the first call of the last step printed.
    fn output(&self) -> &str {
        self.results.last().and_then(|results| results.first()).map_or("", |result| &result.output)
    }
}

#[async_trait]
impl Model for Demo {
    async fn call(&self, request: &ModelRequest, pieces: &mpsc::Sender<Piece>) -> Result<Answer, ModelError> {
        let step = next(request);
        for (text, piece) in [(&step.reasoning, Piece::Reasoning as fn(String) -> Piece), (&step.text, Piece::Text)] {
            for word in text.split_inclusive(char::is_whitespace) {
                let _ = pieces.send(piece(word.to_owned())).await;
                if !self.delay.is_zero() {
                    tokio::time::sleep(self.delay).await;
                }
            }
        }
        Ok(answer(request, step))
    }
}

fn answer(request: &ModelRequest, step: Step) -> Answer {
    let Step { reasoning, text, calls } = step;
    let at = request.messages.len();
    let call = |(number, (name, arguments)): (usize, (&str, Value))| ModelCall {
        id: format!("demo_{at}_{number}"),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    };
    let calls: Vec<ModelCall> = calls.into_iter().enumerate().map(call).collect();
    let written = calls.iter().map(|call| text_tokens(&call.name) + text_tokens(&call.arguments)).sum::<u64>();
    let output = text_tokens(&reasoning) + text_tokens(&text) + written;
    let stop = if calls.is_empty() { StopReason::End } else { StopReason::Tools };
    Answer {
        text,
        reasoning,
        calls,
        raw: None,
        stop,
        tokens: Tokens { input: request_tokens(request), cached: 0, output },
    }
}

fn next(request: &ModelRequest) -> Step {
    let last = request.messages.iter().rposition(|message| matches!(message, ModelMessage::User(_)));
    let (parts, since) = match last.and_then(|at| Some((request.messages.get(at)?, request.messages.get(at + 1..)?))) {
        Some((ModelMessage::User(parts), since)) => (parts.as_slice(), since),
        _ => return words::other(&[]),
    };
    let results = since.iter().filter_map(|message| match message {
        ModelMessage::Results(results) => Some(results.as_slice()),
        _ => None,
    });
    let turn = Turn { request, results: results.collect() };
    let wanted = SUGGESTIONS.iter().position(|suggestion| parts.iter().any(|part| asks(part, suggestion)));
    let Some(script) = wanted.and_then(|index| scripts::ALL.get(index)) else { return words::other(parts) };
    if let Some(missing) = script.tools.iter().find(|tool| !turn.has(tool)) {
        return words::missing(missing);
    }
    (script.step)(&turn)
}

/// Whether a part of a message begins with a suggestion.
fn asks(part: &UserPart, suggestion: &str) -> bool {
    let UserPart::Text(text) = part else { return false };
    let text = text.trim_start();
    text.get(..suggestion.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(suggestion))
}

#[cfg(test)]
mod tests;
