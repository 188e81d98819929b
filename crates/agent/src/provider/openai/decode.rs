//! Puts an answer together from chunks of a chat completion.

use cabana_types::chat::StopReason;
use serde_json::{Value, json};

use super::calls::Calls;
use crate::model::{Answer, ModelError, Tokens};
use crate::provider::problem::Problem;
use crate::provider::reader::{Decoder, Fault, Pieces, number_of, text_of};

/// The field of reasoning that servers want back.
pub(super) const REASONING: &str = "reasoning_content";

/// A completion so far.
#[derive(Debug, Default)]
pub(in crate::provider) struct Completion {
    text: String,
    reasoning: String,
    /// Whether the reasoning came in the field [`REASONING`].
    wants_reasoning: bool,
    calls: Calls,
    refused: bool,
    stop: Option<StopReason>,
    tokens: Tokens,
    done: bool,
}

impl Decoder for Completion {
    fn event(&mut self, name: &str, data: &Value, pieces: &mut Pieces) -> Result<(), Fault> {
        if data.is_null() {
            self.done = true;
            return Ok(());
        }
        let failed = data.get("error").is_some_and(|error| !error.is_null());
        if failed || name == "error" {
            return Err(Fault::Problem(Problem::read(None, data)));
        }
        self.usage(data.get("usage"));
        let choices = data.get("choices").and_then(Value::as_array).into_iter().flatten();
        // Only one is asked for.
        for choice in choices.filter(|choice| number_of(choice, "index").unwrap_or(0) == 0) {
            for part in ["delta", "message"] {
                if let Some(delta) = choice.get(part) {
                    self.delta(delta, pieces)?;
                }
            }
            match choice.get("finish_reason").and_then(Value::as_str) {
                None | Some("") => {}
                Some("error") => return Err(Fault::Problem(Problem::read(None, data))),
                Some(reason) => self.stop = Some(stop(reason)),
            }
        }
        Ok(())
    }

    fn whole(&mut self, body: &Value, pieces: &mut Pieces) -> Result<(), Fault> {
        self.event("", body, pieces)
    }

    fn is_stopped(&self) -> bool {
        // Some servers end without a reason, but say that it is the end.
        self.stop.is_some() || (self.done && !(self.text.is_empty() && self.calls.is_empty()))
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn answer(self) -> Result<Answer, ModelError> {
        let calls = self.calls.finish()?;
        let stop = match self.stop.unwrap_or_default() {
            _ if self.refused => StopReason::Refused,
            StopReason::End | StopReason::Tools if !calls.is_empty() => StopReason::Tools,
            StopReason::Tools => StopReason::End,
            stop => stop,
        };
        let keep = self.wants_reasoning && !calls.is_empty();
        let raw = keep.then(|| json!({REASONING: self.reasoning}));
        Ok(Answer { text: self.text, reasoning: self.reasoning, calls, raw, stop, tokens: self.tokens })
    }
}

impl Completion {
    fn delta(&mut self, delta: &Value, pieces: &mut Pieces) -> Result<(), ModelError> {
        let aloud = text_of(delta, REASONING);
        self.wants_reasoning |= !aloud.is_empty();
        // Some send the same under both names.
        let aloud = if aloud.is_empty() { text_of(delta, "reasoning") } else { aloud };
        pieces.reasoning(&mut self.reasoning, aloud)?;
        match delta.get("content") {
            Some(Value::String(text)) => pieces.text(&mut self.text, text)?,
            Some(Value::Array(parts)) => {
                for part in parts {
                    self.part(part, pieces)?;
                }
            }
            _ => {}
        }
        let refusal = text_of(delta, "refusal");
        self.refused |= !refusal.is_empty();
        pieces.text(&mut self.text, refusal)?;
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.calls.delta(call, pieces)?;
        }
        match delta.get("function_call") {
            Some(function @ Value::Object(_)) => self.calls.function(function, pieces),
            _ => Ok(()),
        }
    }

    /// Content in parts, as Mistral's models that think send it.
    fn part(&mut self, part: &Value, pieces: &mut Pieces) -> Result<(), ModelError> {
        pieces.text(&mut self.text, text_of(part, "text"))?;
        for thought in part.get("thinking").and_then(Value::as_array).into_iter().flatten() {
            pieces.reasoning(&mut self.reasoning, text_of(thought, "text"))?;
        }
        Ok(())
    }

    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let cached = usage.get("prompt_tokens_details").and_then(|details| number_of(details, "cached_tokens"));
        let cached = cached.or_else(|| number_of(usage, "prompt_cache_hit_tokens"));
        // Counts in every chunk grow.
        let Tokens { input, cached: before, output } = &mut self.tokens;
        *input = number_of(usage, "prompt_tokens").unwrap_or(*input);
        *before = cached.unwrap_or(*before).min(*input);
        *output = number_of(usage, "completion_tokens").unwrap_or(*output);
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "tool_calls" | "function_call" | "tool_use" => StopReason::Tools,
        "length" | "max_tokens" => StopReason::Length,
        "content_filter" | "refusal" => StopReason::Refused,
        _ => StopReason::End,
    }
}
