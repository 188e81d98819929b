//! The frames that are sent: JSON texts. Those that go to many sockets are written once and shared.

use axum::extract::ws::Utf8Bytes;
use cabana_types::wire::{BuildLogEntry, Chat, Event, ListedSandbox, ServerStatus, Service};
use cabana_types::{ChatId, SandboxId, ServiceId, TemplateId};
use serde::Serialize;

#[derive(Serialize)]
struct Frame<'a, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    rest: T,
}

#[derive(Serialize)]
struct Nothing {}

fn write(topic: Option<&str>, kind: &'static str, rest: impl Serialize) -> Utf8Bytes {
    // Our own types have texts as names and no values that JSON lacks.
    serde_json::to_string(&Frame { topic, kind, rest }).unwrap_or_default().into()
}

/// Nothing has to be said, but the client should show that it is there.
pub(crate) fn ping() -> Utf8Bytes {
    write(None, "ping", Nothing {})
}

/// Events of a topic were lost.
pub(crate) fn lagged(topic: &str) -> Utf8Bytes {
    write(Some(topic), "lagged", Nothing {})
}

/// From now on the topic's events are sent.
pub(crate) fn subscribed(topic: &str) -> Utf8Bytes {
    write(Some(topic), "subscribed", Nothing {})
}

/// No more events of the topic are sent.
pub(crate) fn unsubscribed(topic: &str) -> Utf8Bytes {
    write(Some(topic), "unsubscribed", Nothing {})
}

/// What the client asked for is not possible.
pub(crate) fn error(topic: Option<&str>, message: &str) -> Utf8Bytes {
    #[derive(Serialize)]
    struct Failed<'a> {
        message: &'a str,
    }
    write(topic, "error", Failed { message })
}

/// An event of a sandbox, with its row as listings show it.
pub(super) fn sandbox_event(topic: &str, event: &Event, sandbox: Option<&ListedSandbox>) -> Utf8Bytes {
    #[derive(Serialize)]
    struct About<'a> {
        event: &'a Event,
        sandbox: Option<&'a ListedSandbox>,
    }
    write(Some(topic), "event", About { event, sandbox })
}

/// A chat is different.
pub(super) fn chat(topic: &str, chat: &Chat) -> Utf8Bytes {
    #[derive(Serialize)]
    struct About<'a> {
        chat: &'a Chat,
    }
    write(Some(topic), "chat.updated", About { chat })
}

/// A chat is gone.
pub(super) fn chat_removed(topic: &str, id: &ChatId) -> Utf8Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct About<'a> {
        chat_id: &'a ChatId,
    }
    write(Some(topic), "chat.removed", About { chat_id: id })
}

/// A template has changed.
pub(super) fn template(topic: &str, id: &TemplateId) -> Utf8Bytes {
    #[derive(Serialize)]
    struct About<'a> {
        #[serde(rename = "templateID")]
        template_id: &'a TemplateId,
    }
    write(Some(topic), "changed", About { template_id: id })
}

/// A service as it is now.
pub(super) fn service(topic: &str, service: &Service) -> Utf8Bytes {
    #[derive(Serialize)]
    struct About<'a> {
        service: &'a Service,
    }
    write(Some(topic), "service", About { service })
}

/// A service that is gone.
pub(super) fn service_removed(topic: &str, id: &ServiceId, sandbox: &SandboxId) -> Utf8Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct About<'a> {
        deleted: &'a ServiceId,
        sandbox_id: &'a SandboxId,
    }
    write(Some(topic), "service", About { deleted: id, sandbox_id: sandbox })
}

/// Lines of a build's log; the next ones begin at offset `next`.
pub(crate) fn build_log(topic: &str, lines: &[BuildLogEntry], next: u32) -> Utf8Bytes {
    #[derive(Serialize)]
    struct About<'a> {
        lines: &'a [BuildLogEntry],
        next: u32,
    }
    write(Some(topic), "log", About { lines, next })
}

/// The status of a build, and why it failed.
pub(crate) fn build_status(topic: &str, status: &str, reason: Option<&str>, step: Option<&str>) -> Utf8Bytes {
    #[derive(Serialize)]
    struct About<'a> {
        status: &'a str,
        reason: Option<&'a str>,
        step: Option<&'a str>,
    }
    write(Some(topic), "status", About { status, reason, step })
}

/// The status of the server.
pub(crate) fn server_status(topic: &str, status: &ServerStatus) -> Utf8Bytes {
    #[derive(Serialize)]
    struct About<'a> {
        status: &'a ServerStatus,
    }
    write(Some(topic), "status", About { status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_form() {
        assert_eq!(ping().as_str(), r#"{"type":"ping"}"#);
        assert_eq!(lagged("sandboxes").as_str(), r#"{"topic":"sandboxes","type":"lagged"}"#);
        let hostile = "a\"b\u{1b}[31m\n";
        let text = error(Some(hostile), hostile);
        let read: serde_json::Value = serde_json::from_str(text.as_str()).expect("json");
        assert_eq!((&read["topic"], &read["message"]), (&hostile.into(), &hostile.into()));
        assert_eq!(
            build_status("build:a/b", "error", Some("no"), None).as_str(),
            r#"{"topic":"build:a/b","type":"status","status":"error","reason":"no","step":null}"#
        );
    }
}
