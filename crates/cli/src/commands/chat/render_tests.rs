//! Events in, text out.

use cabana_client::ChatEvent;
use serde_json::{Value, json};

use super::render::{Piece, Renderer, Style, one_line};

const LIVE: Style = Style { live: true, colours: false, quiet: false };

fn event(kind: &str, data: Value) -> ChatEvent {
    ChatEvent { id: None, kind: kind.to_owned(), data }
}

fn delta(text: &str) -> ChatEvent {
    event("message.delta", json!({"messageId": msg(), "delta": {"text": text}}))
}

fn msg() -> String {
    format!("msg_{}", "a".repeat(20))
}

fn whole(kind: &str, text: &str, status: &str) -> ChatEvent {
    let message = json!({
        "id": msg(), "chatId": format!("chat_{}", "a".repeat(20)), "turnId": format!("turn_{}", "a".repeat(20)),
        "role": "assistant", "author": null, "status": status, "createdAt": "2026-01-02T03:04:05Z",
        "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": text}],
    });
    event(kind, json!({"message": message}))
}

fn call(id: &str, title: &str) -> ChatEvent {
    event(
        "tool.call",
        json!({"toolCall": {"id": id, "name": "sandbox_run_command", "title": title, "status": "running"}}),
    )
}

fn output(id: &str, text: &str) -> ChatEvent {
    event("tool.output", json!({"toolCallId": id, "stream": "stdout", "text": text, "dropped": 0}))
}

fn success(id: &str) -> ChatEvent {
    let data = json!({"toolCallId": id, "name": "sandbox_run_command", "status": "success", "durationMs": 1234, "error": null});
    event("tool.message", data)
}

fn failure(id: &str, code: &str, data: Value) -> ChatEvent {
    let error = json!({"code": code, "message": "it is\ngone \u{1b}[2J", "hint": ""});
    event("tool.message", json!({"toolCallId": id, "name": "x", "status": "error", "error": error, "data": data}))
}

/// Everything that is printed: on standard output, on standard error, and on a terminal that shows both.
fn print(style: Style, events: &[ChatEvent]) -> (String, String, String) {
    let mut renderer = Renderer::new(style);
    let (mut answer, mut aside, mut both) = (String::new(), String::new(), String::new());
    for piece in events.iter().flat_map(|event| renderer.event(event)).collect::<Vec<_>>() {
        let (stream, text) = match piece {
            Piece::Answer(text) => (&mut answer, text),
            Piece::Aside(text) => (&mut aside, text),
        };
        stream.push_str(&text);
        both.push_str(&text);
    }
    (answer, aside, both)
}

#[test]
fn a_turn() {
    let events = [
        delta("I run "),
        event("message.delta", json!({"messageId": msg(), "delta": {"reasoning": "secret"}})),
        delta("the tests."),
        whole("message.complete", "I run the tests.", "complete"),
        call("1", "Run npm test"),
        output("1", "ok 1\nok"),
        output("1", " 2\n"),
        success("1"),
        call("2", "Read a.txt"),
        success("2"),
        call("3", "Run false"),
        failure("3", "command_failed", json!({"exitCode": 1})),
        delta("Done.\n"),
        whole("message.complete", "Done.\n", "complete"),
        event("turn.complete", json!({})),
    ];
    let (answer, _, both) = print(LIVE, &events);
    let expected = "\
I run the tests.
▸ Run npm test …
    ok 1
    ok 2
  ✓ 1.2 s
▸ Read a.txt … ✓ 1.2 s
▸ Run false … ✗ exit 1
Done.
";
    assert_eq!(both, expected);
    assert_eq!(answer, "I run the tests.\nDone.\n");
    let (answer, aside, _) = print(Style { quiet: true, ..Style::default() }, &events);
    assert_eq!((answer.as_str(), aside.as_str()), ("I run the tests.\nDone.\n", ""));
    let (_, aside, _) = print(Style::default(), &events);
    assert_eq!(aside, "▸ Run npm test … ✓ 1.2 s\n▸ Read a.txt … ✓ 1.2 s\n▸ Run false … ✗ exit 1\n", "no live output");
}

#[test]
fn calls_side_by_side_are_told_apart() {
    let events = [call("1", "Read a"), call("2", "Read b"), success("1"), failure("2", "file_not_found", Value::Null)];
    let (_, aside, _) = print(LIVE, &events);
    assert_eq!(aside, "▸ Read a …\n▸ Read b …\n  ✓ 1.2 s · Read a\n  ✗ it is gone \u{fffd}[2J · Read b\n");
}

#[test]
fn nothing_is_printed_twice_after_a_lost_connection() {
    let snapshot = whole("message.snapshot", "Hello wor", "streaming");
    let events = [delta("Hello"), snapshot, delta("ld"), whole("message.complete", "Hello world!", "complete")];
    assert_eq!(print(LIVE, &events).0, "Hello world!\n");
    // Its text is another one: it was begun anew.
    let events = [delta("Hello"), whole("message.complete", "Bye", "complete")];
    assert_eq!(print(LIVE, &events).0, "Hello\nBye\n");
    let broken = [delta("Hel"), whole("message.complete", "Hel", "interrupted")];
    assert_eq!(print(LIVE, &broken).2, "Hel\n(the answer broke off)\n");

    let mut again = output("1", "a\nb\nc\n");
    again.data["snapshot"] = json!(true);
    let (_, aside, _) = print(LIVE, &[call("1", "Run x"), output("1", "a\nb\n"), again]);
    assert_eq!(aside, "▸ Run x …\n    a\n    b\n    c\n");
}

#[test]
fn hostile_text_is_neutralised() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}1m\u{202e}\u{200f}x\u{8}";
    let events = [
        delta(evil),
        call("1", &format!("Run {evil}\nsecond line")),
        output("1", &format!("{evil}\u{1b}[31mred\u{1b}[0m\u{1b}[8mhidden\r\n")),
        failure("1", "other", Value::Null),
        event("error", json!({"message": evil, "hint": evil, "retryable": true})),
        event("artifact.created", json!({"attachment": {"name": evil}})),
        event("service.updated", json!({"service": {"id": "s", "name": evil, "state": "running", "url": evil}})),
        event("message.delta", json!({"messageId": 3, "delta": {"text": 5}})),
        event("tool.call", json!({"toolCall": "x"})),
        event("tool.output", json!([])),
        event("message.complete", json!({"message": {"id": 1}})),
    ];
    for colours in [false, true] {
        let (_, _, both) = print(Style { live: true, colours, quiet: false }, &events);
        let bare = both.replace("\u{1b}[0m", "").replace("\u{1b}[31m", "").replace("\u{1b}[2m", "");
        let bare = bare.replace("\u{1b}[36m", "").replace("\u{1b}[32m", "").replace("\u{1b}[33m", "");
        let left: Vec<char> = bare.chars().filter(|c| crate::output::is_control(*c)).collect();
        assert!(left.is_empty(), "{both:?}");
        assert_eq!(both.contains("\u{1b}[31mred"), colours, "colours of tools are kept where there are some");
        assert!(both.contains("hidden") && !both.contains("\u{1b}[8m"));
        assert!(!both.contains("\nsecond line"), "a title is one line");
    }
}

#[test]
fn other_events() {
    let service = json!({"service": {"id": "s", "name": "web", "state": "running", "url": "http://x"}});
    let events = [
        event("service.updated", service.clone()),
        event("service.updated", service),
        event("artifact.created", json!({"attachment": {"name": "plot.png"}})),
        event("context.compacted", json!({})),
        event("error", json!({"message": "overloaded", "hint": "wait", "retryable": true})),
        event("chat.updated", json!({"chat": {}})),
        event("from.the.future", json!({})),
    ];
    let expected = "\
● service web: http://x
+ plot.png
(older messages were summarised for the model)
! overloaded; trying again
  wait
";
    assert_eq!(print(LIVE, &events).1, expected);
    assert_eq!(one_line(&"a".repeat(300)).chars().count(), 201);
}
