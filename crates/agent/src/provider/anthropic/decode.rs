//! Puts an answer together from the events of a message.

use cabana_types::chat::StopReason;
use serde_json::{Value, json};

use crate::model::{Answer, ModelCall, ModelError, ModelErrorCode as Code, Tokens};
use crate::provider::conversation::arguments;
use crate::provider::problem::{Problem, error};
use crate::provider::reader::{Decoder, Fault, Pieces, number_of, text_of};

/// The field of what is kept of an answer: its blocks, as they were.
pub(super) const BLOCKS: &str = "blocks";
/// What a block costs beside its texts, so that their number is bounded too.
const OVERHEAD: usize = 64;

/// A message so far.
#[derive(Debug, Default)]
pub(in crate::provider) struct Message {
    text: String,
    reasoning: String,
    blocks: Vec<(u64, Block)>,
    stop: Option<StopReason>,
    usage: Usage,
    done: bool,
}

/// A block of content.
#[derive(Debug)]
enum Block {
    Text(String),
    /// `input`: as the block began; the texts that follow replace it.
    Call {
        id: String,
        name: String,
        input: Value,
        text: String,
    },
    Thinking {
        text: String,
        signature: String,
    },
    /// Thinking that is not shown, but wanted back.
    Redacted(Value),
    /// What nobody asked for.
    Other,
}

#[derive(Debug, Default)]
struct Usage {
    input: u64,
    read: u64,
    written: u64,
    output: u64,
}

impl Decoder for Message {
    fn event(&mut self, name: &str, data: &Value, pieces: &mut Pieces) -> Result<(), Fault> {
        let none = Value::Null;
        let field = |name: &str| data.get(name).unwrap_or(&none);
        let index = number_of(data, "index").unwrap_or(0);
        let kind = if text_of(data, "type").is_empty() { name } else { text_of(data, "type") };
        match kind {
            "message_start" => self.usage.take(field("message").get("usage")),
            "content_block_start" => self.begin(index, field("content_block"), pieces)?,
            "content_block_delta" => self.delta(index, field("delta"), pieces)?,
            "message_delta" => {
                self.usage.take(data.get("usage"));
                self.stopped(field("delta"));
            }
            "message_stop" => self.done = true,
            "error" => return Err(Fault::Problem(Problem::read(None, data))),
            // Pings, ends of blocks, and what nobody knows yet.
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &Value, pieces: &mut Pieces) -> Result<(), Fault> {
        if text_of(body, "type") == "error" || body.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Fault::Problem(Problem::read(None, body)));
        }
        self.usage.take(body.get("usage"));
        let blocks = body.get("content").and_then(Value::as_array).into_iter().flatten();
        for (index, block) in (0..).zip(blocks) {
            self.begin(index, block, pieces)?;
        }
        self.stopped(body);
        self.done = true;
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn answer(self) -> Result<Answer, ModelError> {
        let thought = self.blocks.iter().any(|(_, block)| matches!(block, Block::Thinking { .. } | Block::Redacted(_)));
        let raw = thought.then(|| json!({BLOCKS: self.blocks.iter().filter_map(|(_, b)| b.raw()).collect::<Vec<_>>()}));
        let mut calls = Vec::new();
        for (_, block) in self.blocks {
            let Block::Call { id, name, input, text } = block else { continue };
            if name.is_empty() {
                return Err(error(Code::Garbled, "the model called a tool without a name"));
            }
            calls.push(ModelCall { id, name, arguments: written(&input, text) });
        }
        let stop = match self.stop.unwrap_or_default() {
            StopReason::End if !calls.is_empty() => StopReason::Tools,
            StopReason::Tools if calls.is_empty() => StopReason::End,
            stop => stop,
        };
        Ok(Answer { text: self.text, reasoning: self.reasoning, calls, raw, stop, tokens: self.usage.tokens() })
    }
}

impl Message {
    fn begin(&mut self, index: u64, block: &Value, pieces: &mut Pieces) -> Result<(), ModelError> {
        pieces.count(OVERHEAD)?;
        let begun = match text_of(block, "type") {
            "text" => {
                let text = text_of(block, "text");
                pieces.text(&mut self.text, text)?;
                Block::Text(text.to_owned())
            }
            "tool_use" => {
                let (id, name) = (text_of(block, "id").to_owned(), text_of(block, "name").to_owned());
                let input = block.get("input").cloned().unwrap_or_default();
                pieces.count(id.len() + name.len() + input.to_string().len())?;
                Block::Call { id, name, input, text: String::new() }
            }
            "thinking" => {
                let (text, signature) = (text_of(block, "thinking").to_owned(), text_of(block, "signature").to_owned());
                pieces.reasoning(&mut self.reasoning, &text)?;
                pieces.count(signature.len())?;
                Block::Thinking { text, signature }
            }
            "redacted_thinking" => {
                pieces.count(text_of(block, "data").len())?;
                Block::Redacted(json!({"type": "redacted_thinking", "data": text_of(block, "data")}))
            }
            _ => Block::Other,
        };
        self.blocks.push((index, begun));
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: &Value, pieces: &mut Pieces) -> Result<(), ModelError> {
        let Some(place) = self.blocks.iter().rposition(|(at, _)| *at == index) else { return Ok(()) };
        let Some((_, block)) = self.blocks.get_mut(place) else { return Ok(()) };
        match (text_of(delta, "type"), block) {
            ("text_delta", Block::Text(all)) => {
                let more = text_of(delta, "text");
                pieces.text(&mut self.text, more)?;
                all.push_str(more);
            }
            ("input_json_delta", Block::Call { text, .. }) => {
                let more = text_of(delta, "partial_json");
                pieces.count(more.len())?;
                text.push_str(more);
            }
            ("thinking_delta", Block::Thinking { text, .. }) => {
                let more = text_of(delta, "thinking");
                pieces.reasoning(&mut self.reasoning, more)?;
                text.push_str(more);
            }
            ("signature_delta", Block::Thinking { signature, .. }) => {
                let more = text_of(delta, "signature");
                pieces.count(more.len())?;
                signature.push_str(more);
            }
            _ => {}
        }
        Ok(())
    }

    fn stopped(&mut self, delta: &Value) {
        let reason = text_of(delta, "stop_reason");
        if !reason.is_empty() {
            self.stop = Some(match reason {
                "tool_use" => StopReason::Tools,
                "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
                "refusal" => StopReason::Refused,
                // `end_turn`, `stop_sequence`, and `pause_turn`, which only tools of the provider lead to.
                _ => StopReason::End,
            });
        }
    }
}

impl Block {
    /// The block as the provider wants it back.
    fn raw(&self) -> Option<Value> {
        match self {
            Self::Text(text) if text.trim().is_empty() => None,
            Self::Text(text) => Some(json!({"type": "text", "text": text})),
            Self::Call { id, name, input, text } => {
                let input =
                    if text.trim().is_empty() { arguments(&written(input, String::new())) } else { arguments(text) };
                Some(json!({"type": "tool_use", "id": id, "name": name, "input": input}))
            }
            Self::Thinking { text, signature } => {
                Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
            }
            Self::Redacted(block) => Some(block.clone()),
            Self::Other => None,
        }
    }
}

/// The arguments as the model wrote them; some servers put them into the beginning of the block.
fn written(input: &Value, text: String) -> String {
    match input {
        _ if !text.trim().is_empty() => text,
        Value::Object(fields) if !fields.is_empty() => input.to_string(),
        _ => "{}".into(),
    }
}

impl Usage {
    /// Counts of later events replace those of earlier ones.
    fn take(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        for (count, name) in [
            (&mut self.input, "input_tokens"),
            (&mut self.read, "cache_read_input_tokens"),
            (&mut self.written, "cache_creation_input_tokens"),
            (&mut self.output, "output_tokens"),
        ] {
            *count = number_of(usage, name).unwrap_or(*count);
        }
    }

    fn tokens(&self) -> Tokens {
        let input = self.input.saturating_add(self.read).saturating_add(self.written);
        Tokens { input, cached: self.read, output: self.output }
    }
}
