//! What a client may say.

use serde::Deserialize;

/// A frame of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientFrame {
    Subscribe {
        topic: String,
        /// Lines of a build's log, or the number of the last event of a chat, that the client has.
        after: Option<u64>,
    },
    Unsubscribe(String),
    /// Somebody looks at a service.
    Presence(String),
    Pong,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    subscribe: Option<String>,
    after: Option<u64>,
    unsubscribe: Option<String>,
    presence: Option<String>,
    pong: Option<bool>,
}

/// Reads a frame; the error says what is wrong with it.
pub(super) fn parse(text: &str) -> Result<ClientFrame, &'static str> {
    let wire: Wire = serde_json::from_str(text).map_err(|_| {
        "the frame must be {\"subscribe\": TOPIC}, {\"unsubscribe\": TOPIC}, {\"presence\": SERVICE} or {\"pong\": true}; `after`, \
         beside a build's topic, is a number of lines"
    })?;
    match wire {
        Wire { subscribe: Some(topic), after, unsubscribe: None, presence: None, pong: None } => {
            Ok(ClientFrame::Subscribe { topic, after })
        }
        Wire { subscribe: None, after: None, unsubscribe: Some(topic), presence: None, pong: None } => {
            Ok(ClientFrame::Unsubscribe(topic))
        }
        Wire { subscribe: None, after: None, unsubscribe: None, presence: Some(service), pong: None } => {
            Ok(ClientFrame::Presence(service))
        }
        Wire { subscribe: None, after: None, unsubscribe: None, presence: None, pong: Some(_) } => {
            Ok(ClientFrame::Pong)
        }
        _ => Err("the frame must have exactly one of subscribe, unsubscribe, presence and pong"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_are_read_or_refused() {
        let topic = || "build:a/b".to_owned();
        assert_eq!(
            parse(r#"{"subscribe":"build:a/b","after":7}"#),
            Ok(ClientFrame::Subscribe { topic: topic(), after: Some(7) })
        );
        assert_eq!(parse(r#"{"unsubscribe":"build:a/b"}"#), Ok(ClientFrame::Unsubscribe(topic())));
        assert_eq!(parse(r#" {"pong": true} "#), Ok(ClientFrame::Pong));
        assert_eq!(parse(r#"{"presence":"svc_a"}"#), Ok(ClientFrame::Presence("svc_a".to_owned())));
        for wrong in [
            "",
            "null",
            "[]",
            "{}",
            "{",
            r#"{"subscribe":1}"#,
            r#"{"subscribe":"a","unsubscribe":"b"}"#,
            r#"{"subscribe":"a","after":-1}"#,
            r#"{"subscribe":"a","other":1}"#,
            r#"{"pong":true,"after":1}"#,
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = parse(&text);
        }
    }
}
