//! Agent tools: their descriptions, and calling them.

use cabana_types::tool::ToolResult;
use cabana_types::{CallId, SandboxId};
use http::{HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Client;
use crate::api::to_json;
use crate::error::Result;
use crate::sse::Events;

/// Largest event that is read: a result with images.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;
const CALL: &str = "call the tool";

/// Description of a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDescription {
    pub name: String,
    #[serde(default)]
    pub title: String,
    pub description: String,
    /// JSON schema of the arguments.
    pub input_schema: Value,
}

/// A call that goes on by itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DetachedCall {
    pub call_id: CallId,
    /// Path of the API where its result will be.
    pub result: String,
}

/// What happens during a call.
#[derive(Debug)]
pub enum ToolEvent {
    /// A command has printed something.
    Output {
        stderr: bool,
        text: String,
    },
    Ended(Box<ToolResult>),
}

/// A call in progress. Dropping it cancels the call.
pub struct ToolCall(Events);

impl std::fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCall").finish_non_exhaustive()
    }
}

impl Client {
    /// Describes the tools of a sandbox, or those that `names` selects.
    pub async fn tools(&self, names: &[String]) -> Result<Vec<ToolDescription>> {
        let words =
            if names.is_empty() { vec!["all".to_owned(), "sandbox_command".to_owned()] } else { names.to_vec() };
        let query = crate::query::encode(&[("tools", words.join(","))]);
        self.fetch("list the tools", &format!("/tools{query}")).await
    }

    /// Calls a tool.
    pub async fn call_tool(&self, id: &SandboxId, tool: &str, arguments: &Value) -> Result<ToolCall> {
        let path = format!("/sandboxes/{id}/tools/{tool}");
        let mut request = self.request(Method::POST, &path, Some(to_json(CALL, arguments)?))?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = self.http().send(CALL, request).await?;
        Ok(ToolCall(Events::new(CALL, response, MAX_EVENT_BYTES)))
    }

    /// Calls a tool without waiting for its result.
    pub async fn detach_tool(&self, id: &SandboxId, tool: &str, arguments: &Value) -> Result<DetachedCall> {
        let path = format!("/sandboxes/{id}/tools/{tool}?detach=true");
        self.call(CALL, self.request(Method::POST, &path, Some(to_json(CALL, arguments)?))?).await
    }
}

impl ToolCall {
    /// The next event; `None` after the result.
    pub async fn next(&mut self) -> Result<Option<ToolEvent>> {
        while let Some((name, data)) = self.0.next().await? {
            if let Some(event) = parse(&name, &data).map_err(|e| self.0.malformed(e))? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

fn parse(name: &str, data: &str) -> serde_json::Result<Option<ToolEvent>> {
    #[derive(Deserialize)]
    struct Output {
        stream: String,
        text: String,
    }
    match name {
        "tool.output" => {
            let Output { stream, text } = serde_json::from_str(data)?;
            Ok(Some(ToolEvent::Output { stderr: stream == "stderr", text }))
        }
        "tool.message" => Ok(Some(ToolEvent::Ended(Box::new(serde_json::from_str(data)?)))),
        // Newer events, and comments that keep the connection alive.
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read() {
        let output = parse("tool.output", "{\"stream\":\"stderr\",\"text\":\"a\\nb\"}").expect("event");
        assert!(matches!(output, Some(ToolEvent::Output { stderr: true, ref text }) if text == "a\nb"), "{output:?}");
        assert!(parse("", "").expect("comment").is_none());
        assert!(parse("tool.call", "{}").expect("event").is_none());
        assert!(parse("tool.message", "{").is_err());
    }
}
