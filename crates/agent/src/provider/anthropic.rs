//! Anthropic's messages.

mod decode;

use async_trait::async_trait;
use cabana_types::tool::ToolImage;
use http::header::HeaderName;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::conversation::{UNREADABLE, arguments, is_readable, paired, word};
use super::exchange::{ProviderConfig, ask};
use crate::model::{Answer, CallResult, Model, ModelError, ModelMessage, ModelRequest, Piece, Said, UserPart};

const VERSION: &str = "2023-06-01";
/// The wire wants a limit. These are the largest that all models of a generation take.
const MAX_TOKENS: u32 = 32_000;
const MAX_TOKENS_OLD: [(&str, u32); 3] = [("claude-3-5", 8192), ("claude-3-7", 32_000), ("claude-3-", 4096)];

/// A provider of this wire.
#[derive(Debug)]
pub struct Anthropic {
    config: ProviderConfig,
}

impl Anthropic {
    /// Nothing is sent before the first call.
    pub fn new(config: ProviderConfig) -> Self {
        Self { config }
    }
}

#[async_trait]
impl Model for Anthropic {
    async fn call(&self, request: &ModelRequest, pieces: &mpsc::Sender<Piece>) -> Result<Answer, ModelError> {
        let mut headers = vec![(HeaderName::from_static("anthropic-version"), VERSION.to_owned())];
        if let Some(key) = self.config.key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty()) {
            headers.push((HeaderName::from_static("x-api-key"), key.to_owned()));
        }
        let with_version = self.config.base_url.trim().trim_end_matches('/').ends_with("/v1");
        let path = if with_version { "/messages" } else { "/v1/messages" };
        Box::pin(ask::<decode::Message>(&self.config, path, &headers, &body(request), pieces)).await
    }
}

fn body(request: &ModelRequest) -> Value {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in paired(&request.messages) {
        let (role, blocks) = match message.as_ref() {
            ModelMessage::User(parts) => ("user", parts.iter().filter_map(part).collect()),
            ModelMessage::Assistant(said) => ("assistant", assistant(said)),
            ModelMessage::Results(results) => ("user", results.iter().map(result).collect()),
        };
        match messages.last_mut() {
            None if role == "assistant" => messages.extend([("user", Vec::new()), (role, blocks)]),
            // Results, and what a person says after them, are one message.
            Some((last, before)) if *last == role => before.extend(blocks),
            _ => messages.push((role, blocks)),
        }
    }
    for (_, blocks) in &mut messages {
        if blocks.is_empty() {
            blocks.push(text("(empty)"));
        }
    }
    // What stands before a mark is read from the provider's cache the next time.
    let last = messages.iter_mut().rev().find(|(role, _)| *role == "user");
    if let Some(block) = last.and_then(|(_, blocks)| blocks.last_mut()) {
        mark(block);
    }
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema}))
        .collect();
    if let Some(tool) = tools.last_mut() {
        mark(tool);
    }
    let message = |(role, blocks): (&str, Vec<Value>)| json!({"role": role, "content": blocks});
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    body.insert("max_tokens".into(), request.max_output_tokens.unwrap_or_else(|| max_tokens(&request.model)).into());
    body.insert("stream".into(), true.into());
    if !request.system.trim().is_empty() {
        let mut system = text(&request.system);
        mark(&mut system);
        body.insert("system".into(), json!([system]));
    }
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    body.insert("messages".into(), messages.into_iter().map(message).collect());
    Value::Object(body)
}

fn max_tokens(model: &str) -> u32 {
    let old = MAX_TOKENS_OLD.iter().find(|(name, _)| model.contains(name));
    old.map_or(MAX_TOKENS, |(_, most)| *most)
}

fn mark(block: &mut Value) {
    if let Some(fields) = block.as_object_mut() {
        fields.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn part(part: &UserPart) -> Option<Value> {
    match part {
        // The wire refuses blank texts.
        UserPart::Text(blank) if blank.trim().is_empty() => None,
        UserPart::Text(said) => Some(text(said)),
        UserPart::Image(shown) => Some(image(shown)),
    }
}

fn image(image: &ToolImage) -> Value {
    match is_readable(image) {
        true => {
            let source = json!({"type": "base64", "media_type": image.media_type, "data": image.data});
            json!({"type": "image", "source": source})
        }
        false => text(UNREADABLE),
    }
}

fn assistant(said: &Said) -> Vec<Value> {
    if let Some(blocks) = said.raw.as_ref().and_then(|raw| raw.get(decode::BLOCKS)).and_then(Value::as_array)
        && are_of(blocks, said)
    {
        return blocks.clone();
    }
    let mut blocks = Vec::new();
    if !said.text.trim().is_empty() {
        blocks.push(text(&said.text));
    }
    for call in &said.calls {
        let input = arguments(&call.arguments);
        blocks.push(json!({"type": "tool_use", "id": id(&call.id), "name": word(&call.name, 64), "input": input}));
    }
    blocks
}

/// Whether blocks make the same calls as the message that they were kept with.
fn are_of(blocks: &[Value], said: &Said) -> bool {
    // Written by the provider itself, ids have no other characters.
    let ids = blocks.iter().filter(|block| block.get("type") == Some(&"tool_use".into()));
    !blocks.is_empty()
        && ids
            .map(|block| block.get("id").and_then(Value::as_str))
            .eq(said.calls.iter().map(|call| Some(call.id.as_str())))
}

fn id(id: &str) -> String {
    word(id, 128)
}

fn result(result: &CallResult) -> Value {
    let mut content = Vec::new();
    if !result.output.trim().is_empty() || result.images.is_empty() {
        content.push(text(if result.output.trim().is_empty() { "(no output)" } else { &result.output }));
    }
    content.extend(result.images.iter().map(image));
    let mut block = json!({"type": "tool_result", "tool_use_id": id(&result.id), "content": content});
    if let (true, Some(fields)) = (result.is_error, block.as_object_mut()) {
        fields.insert("is_error".into(), true.into());
    }
    block
}

#[cfg(test)]
pub(super) use decode::Message;
#[cfg(test)]
mod tests;
