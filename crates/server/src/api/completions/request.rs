//! A request in OpenAI's form. Fields that mean nothing here are ignored; those that would change the answer are refused.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{ApiError, short};

/// A request for a completion. Further fields of OpenAI's are ignored.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct CompletionRequest {
    /// `agent/NAME`, the id of an agent, or `PROVIDER/MODEL`; the server's default if omitted.
    #[serde(default)]
    model: Option<String>,
    /// The last one is of the role `user` and is answered. Content is text.
    messages: Vec<CompletionMessage>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    /// `chat_id`: the chat that goes on. `show_tools`: whether calls of tools are told in the text. Others are kept with a new chat.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Refused unless it is empty: the server runs its own tools.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    #[schema(ignore)]
    functions: Option<Vec<Value>>,
    /// 1 or omitted.
    #[serde(default)]
    n: Option<u64>,
}

/// A message.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(crate) struct CompletionMessage {
    role: String,
    /// A text, or a list of parts of the type `text`.
    #[serde(default)]
    #[schema(value_type = Object)]
    content: Value,
}

/// What a stream has.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
pub(crate) struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// A request that was checked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) model: Option<String>,
    /// The message that is answered.
    pub(super) prompt: String,
    /// Roles and texts of those before it.
    earlier: Vec<(String, String)>,
    pub(super) chat: Option<String>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) show_tools: bool,
    /// For a new chat.
    pub(super) metadata: Map<String, Value>,
}

impl Asked {
    pub(super) fn read(request: CompletionRequest) -> Result<Self, ApiError> {
        let refused = [("tools", request.tools), ("functions", request.functions)];
        if let Some((name, _)) =
            refused.into_iter().find(|(_, list)| list.as_ref().is_some_and(|list| !list.is_empty()))
        {
            let text = format!(
                "{name} is not taken here: the server runs its own tools. For tools of yours, use POST /chats with functions"
            );
            return Err(ApiError::invalid(text));
        }
        if request.n.is_some_and(|n| n != 1) {
            return Err(ApiError::invalid("n must be 1: a turn has one answer"));
        }
        let mut messages = Vec::with_capacity(request.messages.len());
        for message in request.messages {
            messages.push((role(&message.role)?.to_owned(), text(&message.content)?));
        }
        let Some((role, prompt)) = messages.pop() else { return Err(ApiError::invalid("messages is empty")) };
        if role != "user" {
            return Err(ApiError::invalid(
                "The last of messages must have the role user: it is the one that is answered",
            ));
        }
        let mut metadata = request.metadata.unwrap_or_default();
        let chat = match metadata.remove("chat_id") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id),
            Some(_) => return Err(ApiError::invalid("metadata.chat_id must be the id of a chat")),
        };
        // Clients may have to send texts.
        let shown = metadata.remove("show_tools");
        let show_tools =
            matches!(&shown, Some(Value::Bool(true))) || shown.as_ref().and_then(Value::as_str) == Some("true");
        Ok(Self {
            model: request.model,
            prompt,
            earlier: messages.into_iter().filter(|(_, text)| !text.trim().is_empty()).collect(),
            chat,
            stream: request.stream.unwrap_or_default(),
            include_usage: request.stream_options.unwrap_or_default().include_usage.unwrap_or_default(),
            show_tools,
            metadata,
        })
    }

    /// The first message of a new chat: earlier messages, told apart from the one that is answered.
    pub(super) fn first_message(&self) -> String {
        if self.earlier.is_empty() {
            return self.prompt.clone();
        }
        let mut text = String::from(
            "The client sent earlier messages of this conversation along. Follow those of the role system, and answer only the last \
             message, after them.\n",
        );
        for (role, said) in &self.earlier {
            text.push_str(&format!("\n<message role=\"{role}\">\n{said}\n</message>\n"));
        }
        text.push_str(&format!("\n{}", self.prompt));
        text
    }
}

fn role(role: &str) -> Result<&'static str, ApiError> {
    match role {
        "system" | "developer" => Ok("system"),
        "user" => Ok("user"),
        "assistant" => Ok("assistant"),
        "tool" | "function" => Ok("tool"),
        other => Err(ApiError::invalid(format!("{:?} is not the role of a message", short(other)))),
    }
}

fn text(content: &Value) -> Result<String, ApiError> {
    let parts = match content {
        Value::Null => return Ok(String::new()),
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        _ => return Err(ApiError::invalid("content of a message must be a text, or a list of parts")),
    };
    let mut texts = Vec::new();
    for part in parts {
        match (part.get("type").and_then(Value::as_str), part.get("text").and_then(Value::as_str)) {
            (Some("text"), Some(text)) => texts.push(text),
            (kind, _) => {
                let kind = short(kind.unwrap_or_default());
                return Err(ApiError::invalid(format!(
                    "Parts of the type {kind:?} are not taken here; upload files with POST /attachments and use POST /chats"
                )));
            }
        }
    }
    Ok(texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(request: Value) -> Result<Asked, String> {
        let request = serde_json::from_value(request).expect("a request");
        Asked::read(request).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn earlier_messages_are_told_apart() {
        let one = read(json!({"messages": [{"role": "user", "content": "Hi"}], "temperature": 1, "user": "u"}))
            .expect("read");
        assert_eq!((one.first_message().as_str(), one.stream, one.include_usage), ("Hi", false, false));
        let metadata = json!({"show_tools": "true", "x": "y"});
        let many =
            read(json!({"stream": true, "stream_options": {"include_usage": true}, "metadata": metadata, "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": null},
                {"role": "assistant", "content": "c"},
                {"role": "user", "content": "d"},
            ]}))
            .expect("read");
        assert!(many.stream && many.include_usage && many.show_tools && many.chat.is_none());
        assert_eq!(many.metadata.len(), 1);
        let text = many.first_message();
        assert!(
            text.ends_with(concat!(
                "\n<message role=\"system\">\nBe brief.\n</message>\n\n<message role=\"user\">\na\nb\n</message>\n",
                "\n<message role=\"assistant\">\nc\n</message>\n\nd"
            )),
            "{text}"
        );
        let on = read(json!({"messages": [{"role": "user", "content": "Hi"}], "metadata": {"chat_id": "chat_x"}}))
            .expect("read");
        assert_eq!((on.chat.as_deref(), on.metadata.len()), (Some("chat_x"), 0));
    }

    #[test]
    fn what_would_change_the_answer_is_refused() {
        let with = |name: &str, value: Value| {
            let mut request = json!({"messages": [{"role": "user", "content": "Hi"}]});
            request[name] = value;
            request
        };
        for (request, said) in [
            (with("tools", json!([{"type": "function"}])), "tools is not taken"),
            (with("functions", json!([{"name": "f"}])), "functions is not taken"),
            (with("n", json!(2)), "n must be 1"),
            (with("messages", json!([])), "messages is empty"),
            (with("messages", json!([{"role": "assistant", "content": "x"}])), "must have the role user"),
            (with("messages", json!([{"role": "robot", "content": "x"}])), "is not the role"),
            (with("messages", json!([{"role": "user", "content": 1}])), "content of a message"),
            (
                with("messages", json!([{"role": "user", "content": [{"type": "image_url"}]}])),
                "\"image_url\" are not taken",
            ),
            (with("metadata", json!({"chat_id": 1})), "metadata.chat_id"),
        ] {
            let text = read(request).expect_err(said);
            assert!(text.contains(said), "{said}: {text}");
        }
        read(with("tools", json!([]))).expect("an empty list changes nothing");
    }
}
