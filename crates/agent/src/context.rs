//! Keeps a conversation within what a model can read. Pure: what is left out follows from the messages and the window alone, and what
//! people see is never cut.

mod summary;

use std::ops::Range;

use cabana_types::guest::tools::OUTPUT_DIR;
use serde_json::Value;

use crate::model::{CallResult, ModelMessage, ModelRequest, ToolDefinition, UserPart};

pub use summary::{summarised, summary_request, with_summary};

/// Tokens of an image.
pub const IMAGE_TOKENS: u64 = 1500;
/// Tokens of what stands around a message.
const MESSAGE_TOKENS: u64 = 4;
/// Messages with images whose images stay.
const KEPT_IMAGES: usize = 2;
/// Results whose output stays.
const KEPT_OUTPUTS: usize = 10;
/// Less than this is not worth a summary.
const LEAST_SUMMARISED: u64 = 2000;

/// Tokens of a text, roughly.
pub fn text_tokens(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4)
}

/// Tokens of a message, roughly.
pub fn message_tokens(message: &ModelMessage) -> u64 {
    let content = match message {
        ModelMessage::User(parts) => parts.iter().map(part_tokens).sum(),
        ModelMessage::Assistant(said) => {
            let calls = said.calls.iter().map(|call| text_tokens(&call.name) + text_tokens(&call.arguments));
            let plain = text_tokens(&said.text) + calls.sum::<u64>();
            // What goes back as it was has the text and the calls in it.
            plain.max(said.raw.as_ref().map_or(0, value_tokens))
        }
        ModelMessage::Results(results) => results.iter().map(result_tokens).sum(),
    };
    content + MESSAGE_TOKENS
}

fn part_tokens(part: &UserPart) -> u64 {
    match part {
        UserPart::Text(text) => text_tokens(text),
        UserPart::Image(_) => IMAGE_TOKENS,
    }
}

fn result_tokens(result: &CallResult) -> u64 {
    text_tokens(&result.output) + IMAGE_TOKENS * result.images.len() as u64 + MESSAGE_TOKENS
}

fn value_tokens(value: &Value) -> u64 {
    text_tokens(&value.to_string())
}

/// Tokens of the instructions and tools of a request, roughly.
pub fn fixed_tokens(system: &str, tools: &[ToolDefinition]) -> u64 {
    let tool =
        |tool: &ToolDefinition| text_tokens(&tool.name) + text_tokens(&tool.description) + value_tokens(&tool.schema);
    text_tokens(system) + tools.iter().map(tool).sum::<u64>()
}

/// Tokens of a whole request, roughly.
pub fn request_tokens(request: &ModelRequest) -> u64 {
    fixed_tokens(&request.system, &request.tools) + total(&request.messages)
}

fn total(messages: &[ModelMessage]) -> u64 {
    messages.iter().map(message_tokens).sum()
}

/// What becomes of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    /// It fits, perhaps with less of what is old.
    Fits(Vec<ModelMessage>),
    /// It fits once these of its messages are a summary: [`summary_request`] asks for it and [`summarised`] puts it in their place. They
    /// begin with the first message or, if the present turn alone is too long, after the last message of the person.
    Summarise {
        messages: Range<usize>,
        /// All messages, with less of what is old.
        conversation: Vec<ModelMessage>,
    },
    /// Nothing is left to leave out; the provider may refuse it.
    TooLong(Vec<ModelMessage>),
}

/// Makes a conversation fit into three quarters of a window. Old images go first, then old outputs of tools. A call and its result are
/// never separated, and the last message of the person stays.
pub fn fit(mut messages: Vec<ModelMessage>, system_and_tools_tokens: u64, window: u64) -> Fit {
    let budget = (window / 4).saturating_mul(3).saturating_sub(system_and_tools_tokens);
    if total(&messages) <= budget {
        return Fit::Fits(messages);
    }
    leave_out_images(&mut messages);
    if total(&messages) <= budget {
        return Fit::Fits(messages);
    }
    leave_out_outputs(&mut messages);
    if total(&messages) <= budget {
        return Fit::Fits(messages);
    }
    match range(&messages, budget) {
        Some(range) => Fit::Summarise { messages: range, conversation: messages },
        None => Fit::TooLong(messages),
    }
}

fn leave_out_images(messages: &mut [ModelMessage]) {
    let mut with_images = 0;
    for message in messages.iter_mut().rev() {
        let has = match message {
            ModelMessage::User(parts) => parts.iter().any(|part| matches!(part, UserPart::Image(_))),
            ModelMessage::Results(results) => results.iter().any(|result| !result.images.is_empty()),
            ModelMessage::Assistant(_) => false,
        };
        with_images += usize::from(has);
        if !has || with_images <= KEPT_IMAGES {
            continue;
        }
        match message {
            ModelMessage::User(parts) => {
                for part in parts.iter_mut().filter(|part| matches!(part, UserPart::Image(_))) {
                    *part = UserPart::Text("[an image that was here is left out]".into());
                }
            }
            ModelMessage::Results(results) => {
                for result in results.iter_mut().filter(|result| !result.images.is_empty()) {
                    result.images.clear();
                    result.output.push_str("\n[an image that was here is left out; call the tool again to see it]");
                }
            }
            ModelMessage::Assistant(_) => {}
        }
    }
}

fn leave_out_outputs(messages: &mut [ModelMessage]) {
    let mut seen = 0;
    for message in messages.iter_mut().rev() {
        let ModelMessage::Results(results) = message else { continue };
        for result in results.iter_mut().rev() {
            seen += 1;
            if seen > KEPT_OUTPUTS {
                let line = left_out(result);
                if line.len() < result.output.len() {
                    result.output = line;
                }
            }
        }
    }
}

/// What stands in place of an output: where it can be read again.
fn left_out(result: &CallResult) -> String {
    let name = crate::text::one_line(&result.name, 64);
    match output_file(&result.output) {
        Some(path) => format!("[the output of {name} is left out here; all of it: {path}]"),
        None => format!("[the output of {name} is left out here; call the tool again if you need it]"),
    }
}

/// The file with all output that a text names last.
fn output_file(text: &str) -> Option<&str> {
    let from = text.rfind(&format!("{OUTPUT_DIR}/"))?;
    let rest = text.get(from..)?;
    let name = rest.get(OUTPUT_DIR.len() + 1..)?;
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c))).unwrap_or(name.len());
    let end = name.get(..end)?.trim_end_matches('.').len();
    if end == 0 || end > 100 { None } else { rest.get(..OUTPUT_DIR.len() + 1 + end) }
}

/// The messages that become a summary.
fn range(messages: &[ModelMessage], budget: u64) -> Option<Range<usize>> {
    let last_user = messages.iter().rposition(|message| matches!(message, ModelMessage::User(_)));
    let least = LEAST_SUMMARISED.min(budget / 4);
    let after = sums(messages);
    let before = (0, last_user.unwrap_or(0));
    // Of the present turn, the last call and its result stay.
    let within = last_user.map_or(0, |at| at + 1);
    let last_said = messages.iter().rposition(|message| matches!(message, ModelMessage::Assistant(_))).unwrap_or(0);
    [before, (within, last_said)].into_iter().find_map(|(start, most)| {
        let cuts = || (start + 1..=most).filter(|at| !matches!(messages.get(*at), Some(ModelMessage::Results(_))));
        let after = |at: usize| after.get(at).copied().unwrap_or(0);
        // As little as possible, but enough for many more messages.
        let end = cuts().find(|at| after(*at) <= budget / 2).or_else(|| cuts().next_back())?;
        (after(start) - after(end) > least).then_some(start..end)
    })
}

/// For each message, the tokens of it and of all that follow.
fn sums(messages: &[ModelMessage]) -> Vec<u64> {
    let mut sums: Vec<u64> = messages.iter().map(message_tokens).collect();
    let mut sum = 0;
    for tokens in sums.iter_mut().rev() {
        sum += *tokens;
        *tokens = sum;
    }
    sums
}

#[cfg(test)]
mod tests;
