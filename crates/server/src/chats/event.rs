//! Events of a chat, as they are stored and sent.

use cabana_store::EventRow;
use cabana_types::{ChatId, TurnId};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// An event that has no number yet.
#[derive(Debug, Clone)]
pub(crate) struct NewEvent {
    pub(crate) kind: &'static str,
    pub(crate) turn: Option<TurnId>,
    /// Its own fields.
    pub(crate) data: Map<String, Value>,
}

impl NewEvent {
    /// An event with the fields of an object.
    pub(crate) fn new(kind: &'static str, turn: Option<&TurnId>, data: Value) -> Self {
        let mut data = if let Value::Object(fields) = data { fields } else { Map::new() };
        // Every event has these.
        for name in ["type", "chatId", "turnId", "at"] {
            data.remove(name);
        }
        Self { kind, turn: turn.cloned(), data }
    }

    /// With its number, as it is stored.
    pub(super) fn row(self, id: u64, at: Timestamp) -> EventRow {
        let data = Value::Object(self.data).to_string();
        // As exact as the store has it: who reads it there gets the same event.
        let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
        EventRow { id, turn: self.turn, kind: self.kind.to_owned(), data, at }
    }
}

/// An event as it is sent. It is written once and shared by all who watch.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) turn: Option<TurnId>,
    /// All fields, as a JSON object.
    pub(crate) json: String,
}

impl Published {
    pub(super) fn new(chat: &ChatId, row: EventRow) -> Self {
        let EventRow { id, turn, kind, data, at } = row;
        let own = data.trim_start_matches('{');
        let separator = if own == "}" { "" } else { "," };
        let turn_id = turn.as_ref().map_or_else(|| "null".to_owned(), |turn| format!("\"{turn}\""));
        let json = format!(r#"{{"type":"{kind}","chatId":"{chat}","turnId":{turn_id},"at":"{at}"{separator}{own}"#);
        Self { id, kind, turn, json }
    }

    /// As a server-sent event.
    pub(crate) fn sse(&self) -> String {
        format!("id: {}\nevent: {}\ndata: {}\n\n", self.id, self.kind, self.json)
    }

    /// As a frame of a socket for live updates.
    pub(crate) fn frame(&self, topic: &str) -> String {
        let topic = Value::from(topic);
        format!(r#"{{"topic":{topic},"id":{},{}"#, self.id, self.json.trim_start_matches('{'))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_sent_is_json() {
        let chat = ChatId::from_random([1; 20]);
        let turn = TurnId::from_random([2; 20]);
        for data in [json!({}), json!({"text": "a\nb {\"x\"}", "n": [1], "turnId": turn})] {
            let row = NewEvent::new("message.delta", Some(&turn), data.clone()).row(7, Timestamp::UNIX_EPOCH);
            let sent = Published::new(&chat, row);
            let read: Value = serde_json::from_str(&sent.json).unwrap();
            assert_eq!(sent.json.matches("turnId").count(), 1);
            assert_eq!((&read["type"], &read["turnId"]), (&json!("message.delta"), &json!(turn)));
            assert!(data.as_object().unwrap().iter().all(|(key, value)| read[key] == *value));
            let frame: Value = serde_json::from_str(&sent.frame("chat:x")).unwrap();
            assert_eq!((&frame["id"], &frame["topic"]), (&json!(7), &json!("chat:x")));
            assert!(sent.sse().starts_with("id: 7\nevent: message.delta\ndata: {") && sent.sse().ends_with("}\n\n"));
            assert_eq!(sent.sse().matches('\n').count(), 4);
        }
    }
}
