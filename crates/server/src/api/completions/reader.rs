//! What a turn says, from the events of its chat.

use std::collections::HashMap;

use cabana_types::TurnId;
use cabana_types::chat::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::answer::OpenAiError;
use crate::chats::event::Published;

/// Characters of the title of a call.
const MAX_TITLE: usize = 200;

/// A piece of an answer.
#[derive(Debug)]
pub(super) enum Said {
    Text(String),
    Reasoning(String),
    /// The turn has ended; `reason` is OpenAI's.
    End {
        reason: &'static str,
        usage: Usage,
    },
    Failed(OpenAiError),
}

impl Said {
    /// The answer cannot be read on.
    pub(super) fn unavailable(text: &str) -> Self {
        Self::Failed(OpenAiError::unavailable(format!("{text}; the turn goes on in its chat")))
    }
}

/// What was said of a message.
#[derive(Debug, Default)]
struct Sent {
    text: String,
    reasoning: String,
}

/// Reads the events of a turn.
#[derive(Debug)]
pub(super) struct Reader {
    turn: TurnId,
    show_tools: bool,
    messages: HashMap<String, Sent>,
    /// The message that the last text is of.
    last: Option<String>,
    /// Why the model stopped.
    stop: Option<String>,
    /// What went wrong last.
    error: Option<(String, String)>,
}

impl Reader {
    pub(super) fn new(turn: TurnId, show_tools: bool) -> Self {
        Self { turn, show_tools, messages: HashMap::new(), last: None, stop: None, error: None }
    }

    /// The pieces that an event has. Others than those of the turn have none.
    pub(super) fn read(&mut self, event: &Published) -> Vec<Said> {
        if event.turn.as_ref() != Some(&self.turn) {
            return Vec::new();
        }
        let wanted = ["message.delta", "message.snapshot", "message.complete", "tool.call", "error", "turn.complete"];
        if !wanted.contains(&event.kind.as_str()) {
            return Vec::new();
        }
        let Ok(data) = serde_json::from_str::<Value>(&event.json) else { return Vec::new() };
        match event.kind.as_str() {
            "message.delta" => self.delta(&data),
            "message.snapshot" | "message.complete" => self.message(&data),
            "tool.call" => self.call(&data),
            "turn.complete" => vec![self.end(&data)],
            _ => {
                let field = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                self.error = Some((field("code"), format!("{}. {}", field("message"), field("hint"))));
                Vec::new()
            }
        }
    }

    fn delta(&mut self, data: &Value) -> Vec<Said> {
        let Some(id) = data.get("messageId").and_then(Value::as_str) else { return Vec::new() };
        let piece = |name: &str| data.get("delta").and_then(|delta| delta.get(name)).and_then(Value::as_str);
        match (piece("text"), piece("reasoning")) {
            (Some(text), _) => self.text(id, text),
            (None, Some(more)) => {
                self.messages.entry(id.to_owned()).or_default().reasoning.push_str(more);
                vec![Said::Reasoning(more.to_owned())]
            }
            (None, None) => Vec::new(),
        }
    }

    /// A whole message, or all of it so far: what was not said yet.
    fn message(&mut self, data: &Value) -> Vec<Said> {
        let Some(message) = data.get("message").filter(|message| field(message, "role") == Some("assistant")) else {
            return Vec::new();
        };
        let Some(id) = field(message, "id") else { return Vec::new() };
        self.stop = field(data, "stopReason").map(str::to_owned).or_else(|| self.stop.take());
        let parts = message.get("content").and_then(Value::as_array);
        let all = |kind: &str| -> String {
            let parts = parts.into_iter().flatten().filter(|part| field(part, "type") == Some(kind));
            parts.filter_map(|part| field(part, "text")).collect()
        };
        let (text, reasoning) = (all("text"), all("reasoning"));
        let sent = self.messages.entry(id.to_owned()).or_default();
        let more = reasoning.strip_prefix(sent.reasoning.as_str()).unwrap_or_default().to_owned();
        sent.reasoning.push_str(&more);
        let rest = text.strip_prefix(sent.text.as_str()).unwrap_or_default().to_owned();
        let mut said: Vec<Said> = Some(more).filter(|more| !more.is_empty()).map(Said::Reasoning).into_iter().collect();
        said.extend(self.text(id, &rest));
        said
    }

    fn text(&mut self, id: &str, text: &str) -> Vec<Said> {
        if text.is_empty() {
            return Vec::new();
        }
        self.messages.entry(id.to_owned()).or_default().text.push_str(text);
        let between = match &self.last {
            Some(last) if last != id => "\n\n",
            _ => "",
        };
        self.last = Some(id.to_owned());
        vec![Said::Text(format!("{between}{text}"))]
    }

    /// A line about a call of a tool, where the client wants to see them.
    fn call(&mut self, data: &Value) -> Vec<Said> {
        let title = data.get("toolCall").and_then(|call| field(call, "title")).filter(|_| self.show_tools);
        let Some(title) = title else { return Vec::new() };
        let line: String = title.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TITLE).collect();
        let between = if self.last.is_some() { "\n\n" } else { "" };
        // No message has this id: the next text begins a paragraph.
        self.last = Some(String::new());
        vec![Said::Text(format!("{between}▸ {line}"))]
    }

    fn end(&mut self, data: &Value) -> Said {
        let usage = data.get("usage").and_then(|usage| Usage::deserialize(usage).ok()).unwrap_or_default();
        let reason = field(data, "reason");
        match (field(data, "status"), reason) {
            (Some("failed"), Some("step_limit" | "time_limit" | "cost_limit")) => Said::End { reason: "length", usage },
            (Some("failed" | "interrupted"), reason) => {
                let code = reason.unwrap_or("turn_failed").to_owned();
                let (code, text) = self.error.take().unwrap_or_else(|| {
                    let text = format!("The turn did not end well ({code}). Try again");
                    (code, text)
                });
                Said::Failed(OpenAiError::of_turn(code, text))
            }
            (Some("waiting"), reason) => Said::Failed(OpenAiError::of_turn(
                "turn_waiting".into(),
                format!(
                    "The turn waits for a person or the client ({}). Go on in its chat",
                    reason.unwrap_or("unknown")
                ),
            )),
            _ => {
                let reason = match self.stop.as_deref() {
                    Some("length") => "length",
                    Some("refused") => "content_filter",
                    _ => "stop",
                };
                Said::End { reason, usage }
            }
        }
    }
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn() -> TurnId {
        TurnId::from_random([1; 20])
    }

    fn event(kind: &str, data: Value) -> Published {
        Published { id: 1, kind: kind.into(), turn: Some(turn()), json: data.to_string() }
    }

    /// Everything that was said, with reasoning in brackets.
    fn said(reader: &mut Reader, events: &[Published]) -> String {
        let pieces = events.iter().flat_map(|event| reader.read(event));
        let shown = pieces.map(|said| match said {
            Said::Text(text) => text,
            Said::Reasoning(text) => format!("[{text}]"),
            Said::End { reason, usage } => format!("<{reason} {}>", usage.output_tokens),
            Said::Failed(error) => format!("<{} {}>", error.code(), error.message()),
        });
        shown.collect()
    }

    fn delta(id: &str, kind: &str, text: &str) -> Published {
        event("message.delta", json!({"messageId": id, "delta": {kind: text}}))
    }

    fn whole(id: &str, text: &str, stop: &str) -> Published {
        let content = json!([{"type": "reasoning", "text": "hm"}, {"type": "text", "text": text}]);
        event(
            "message.complete",
            json!({"message": {"id": id, "role": "assistant", "content": content}, "stopReason": stop}),
        )
    }

    fn end(status: &str, reason: Value) -> Published {
        let usage = json!({"inputTokens": 3, "cachedTokens": 0, "outputTokens": 5, "costMicros": null});
        event("turn.complete", json!({"status": status, "reason": reason, "usage": usage}))
    }

    #[test]
    fn nothing_is_said_twice_and_nothing_is_left_out() {
        let call = event("tool.call", json!({"toolCall": {"title": "Run npm\ntest"}}));
        let other = Published { turn: None, ..delta("x", "text", "no") };
        let question = json!({"message": {"id": "u", "role": "user", "content": [{"type": "text", "text": "no"}]}});
        let events = [
            event("message.complete", question),
            delta("a", "reasoning", "h"),
            delta("a", "text", "Hel"),
            other,
            whole("a", "Hello", "tools"),
            call,
            whole("b", "Done", "end"),
            end("complete", Value::Null),
        ];
        let expected = "[h]Hel[m]lo\n\n▸ Run npm test\n\n[hm]Done<stop 5>";
        let shown = said(&mut Reader::new(turn(), true), &events);
        assert_eq!(shown.replace("[hm]\n\n", "\n\n[hm]"), expected);
        let plain = said(&mut Reader::new(turn(), false), &events);
        assert_eq!(plain.replace("[hm]\n\n", "\n\n[hm]"), "[h]Hel[m]lo\n\n[hm]Done<stop 5>");
    }

    #[test]
    fn every_end_is_told() {
        let failed = event("error", json!({"code": "model_key_refused", "message": "No", "hint": "Do"}));
        for (events, expected) in [
            (vec![whole("a", "x", "length"), end("complete", Value::Null)], "[hm]x<length 5>"),
            (vec![whole("a", "x", "refused"), end("complete", Value::Null)], "[hm]x<content_filter 5>"),
            (vec![end("cancelled", Value::Null)], "<stop 5>"),
            (vec![end("failed", json!("step_limit"))], "<length 5>"),
            (vec![failed, end("failed", json!("model_failed"))], "<model_key_refused No. Do>"),
            (vec![end("failed", json!("stuck"))], "<stuck The turn did not end well (stuck). Try again>"),
            (
                vec![end("waiting", json!("approval"))],
                "<turn_waiting The turn waits for a person or the client (approval). Go on in its chat>",
            ),
        ] {
            assert_eq!(said(&mut Reader::new(turn(), false), &events), expected);
        }
    }
}
