//! OpenAI's chat completions, which Ollama, vLLM, llama.cpp, LM Studio and OpenRouter speak too.

mod calls;
mod decode;

use async_trait::async_trait;
use cabana_types::tool::ToolImage;
use http::header::AUTHORIZATION;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::conversation::{UNREADABLE, arguments, is_readable, paired, word};
use super::exchange::{ProviderConfig, ask};
use crate::model::{Answer, CallResult, Model, ModelError, ModelMessage, ModelRequest, Piece, Said, UserPart};

/// A provider of this wire.
#[derive(Debug)]
pub struct OpenAi {
    config: ProviderConfig,
}

impl OpenAi {
    /// Nothing is sent before the first call.
    pub fn new(config: ProviderConfig) -> Self {
        Self { config }
    }
}

#[async_trait]
impl Model for OpenAi {
    async fn call(&self, request: &ModelRequest, pieces: &mpsc::Sender<Piece>) -> Result<Answer, ModelError> {
        let key = self.config.key.as_ref().map(|key| key.expose().trim()).filter(|key| !key.is_empty());
        let headers: Vec<_> = key.map(|key| (AUTHORIZATION, format!("Bearer {key}"))).into_iter().collect();
        let own = self.config.host() == "api.openai.com";
        let body = body(request, own);
        Box::pin(ask::<decode::Completion>(&self.config, "/chat/completions", &headers, &body, pieces)).await
    }
}

/// The request. `own`: for OpenAI's own server.
fn body(request: &ModelRequest, own: bool) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    let conversation = paired(&request.messages);
    let last_user = conversation.iter().rposition(|message| matches!(message.as_ref(), ModelMessage::User(_)));
    for (index, message) in conversation.iter().enumerate() {
        match message.as_ref() {
            ModelMessage::User(parts) => messages.push(json!({"role": "user", "content": user(parts)})),
            ModelMessage::Assistant(said) => messages.push(assistant(said, Some(index) > last_user)),
            ModelMessage::Results(results) => tool_results(results, &mut messages),
        }
    }
    let mut body = Map::new();
    body.insert("model".into(), request.model.as_str().into());
    body.insert("messages".into(), messages.into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if !request.tools.is_empty() {
        let tool = |tool: &crate::model::ToolDefinition| {
            let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.schema});
            json!({"type": "function", "function": function})
        };
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    if let Some(most) = request.max_output_tokens {
        // OpenAI's newer models refuse the old name; most other servers know no other.
        let name = if own { "max_completion_tokens" } else { "max_tokens" };
        body.insert(name.into(), most.into());
    }
    Value::Object(body)
}

fn user(parts: &[UserPart]) -> Value {
    if parts.iter().any(|part| matches!(part, UserPart::Image(image) if is_readable(image))) {
        let part = |part: &UserPart| match part {
            UserPart::Text(text) => json!({"type": "text", "text": text}),
            UserPart::Image(shown) => image(shown),
        };
        return parts.iter().map(part).collect();
    }
    // Templates of some local models take nothing but a text.
    let text = |part: &UserPart| match part {
        UserPart::Text(text) => text.clone(),
        UserPart::Image(_) => UNREADABLE.to_owned(),
    };
    Value::String(parts.iter().map(text).collect::<Vec<_>>().join("\n\n"))
}

fn image(image: &ToolImage) -> Value {
    match is_readable(image) {
        true => {
            let url = format!("data:{};base64,{}", image.media_type, image.data);
            json!({"type": "image_url", "image_url": {"url": url}})
        }
        false => json!({"type": "text", "text": UNREADABLE}),
    }
}

/// `current`: the message belongs to the turn that goes on.
fn assistant(said: &Said, current: bool) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), if said.text.is_empty() { Value::Null } else { said.text.as_str().into() });
    if !said.calls.is_empty() {
        let call = |call: &crate::model::ModelCall| {
            let function = json!({"name": word(&call.name, 64), "arguments": arguments(&call.arguments).to_string()});
            json!({"id": call.id, "type": "function", "function": function})
        };
        message.insert("tool_calls".into(), said.calls.iter().map(call).collect());
    }
    // Servers that think aloud between calls want it back until the turn ends; later it is noise.
    if let Some(reasoning) = said.raw.as_ref().and_then(|raw| raw.get(decode::REASONING)).filter(|_| current) {
        message.insert(decode::REASONING.into(), reasoning.clone());
    }
    Value::Object(message)
}

fn tool_results(results: &[CallResult], messages: &mut Vec<Value>) {
    for result in results {
        messages.push(json!({"role": "tool", "tool_call_id": result.id, "content": result.output}));
    }
    // Results are texts on this wire.
    let mut images = Vec::new();
    for result in results {
        for shown in &result.images {
            images.push(
                json!({"type": "text", "text": format!("Image in the result of {} ({}):", result.name, result.id)}),
            );
            images.push(image(shown));
        }
    }
    if !images.is_empty() {
        messages.push(json!({"role": "user", "content": images}));
    }
}

#[cfg(test)]
pub(super) use decode::Completion;
#[cfg(test)]
mod tests;
