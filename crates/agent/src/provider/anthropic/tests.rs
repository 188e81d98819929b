//! Events in, answers out.

use proptest::prelude::*;

use cabana_types::chat::StopReason;

use super::decode::Message;
use super::*;
use crate::model::{ModelCall, ModelErrorCode, Tokens, ToolDefinition};
use crate::provider::reader::{joined, read_chunks};

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or(""))).collect()
}

fn start() -> Value {
    let usage =
        json!({"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 3, "output_tokens": 1});
    json!({"type": "message_start", "message": {"id": "m", "content": [], "usage": usage}})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn end(reason: &str) -> [Value; 2] {
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}});
    [delta, json!({"type": "message_stop"})]
}

fn whole() -> String {
    let mut events = vec![
        start(),
        json!({"type": "ping"}),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
        delta(0, json!({"type": "thinking_delta", "thinking": "m"})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        json!({"type": "content_block_stop", "index": 0}),
        block(1, json!({"type": "redacted_thinking", "data": "ZGF0YQ=="})),
        block(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "Hä"})),
        json!({"type": "news", "what": 1}),
        delta(2, json!({"type": "text_delta", "text": "llo"})),
        delta(2, json!({"type": "news_delta", "text": "no"})),
        block(3, json!({"type": "tool_use", "id": "t1", "name": "f", "input": {}})),
        delta(3, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(3, json!({"type": "input_json_delta", "partial_json": "{\"a\""})),
        delta(3, json!({"type": "input_json_delta", "partial_json": ": 1}"})),
        block(4, json!({"type": "tool_use", "id": "t2", "name": "g", "input": {}})),
    ];
    events.extend(end("tool_use"));
    stream(&events)
}

fn read(text: &str) -> Result<Answer, ModelError> {
    read_chunks::<Message>([text.as_bytes()]).1
}

fn call(id: &str, name: &str, arguments: &str) -> ModelCall {
    ModelCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

#[test]
fn a_stream_becomes_an_answer() {
    let (pieces, answer) = read_chunks::<Message>([whole().as_bytes()]);
    assert_eq!(joined(pieces), [Piece::Reasoning("Hmm".into()), Piece::Text("Hällo".into())]);
    let answer = answer.unwrap();
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str(), answer.stop), ("Hällo", "Hmm", StopReason::Tools));
    assert_eq!(answer.calls, [call("t1", "f", "{\"a\": 1}"), call("t2", "g", "{}")]);
    assert_eq!(answer.tokens, Tokens { input: 28, cached: 20, output: 9 });
    let blocks = json!([
        {"type": "thinking", "thinking": "Hmm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "text", "text": "Hällo"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
    ]);
    assert_eq!(answer.raw, Some(json!({"blocks": blocks})));
    // And they go back as they were, as long as the message is the same.
    let said = Said { text: answer.text, calls: answer.calls, raw: answer.raw };
    assert_eq!(Value::Array(assistant(&said)), blocks);
    let other = Said { calls: vec![call("t9", "f", "{}")], ..said };
    assert_eq!(assistant(&other).len(), 2);
}

#[test]
fn reasons_ends_and_errors() {
    let text = [start(), block(0, json!({"type": "text", "text": "x"}))];
    let stopped = |reason: &str| read(&stream(&[&text[..], &end(reason)].concat())).unwrap();
    for (reason, expected) in [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("pause_turn", StopReason::End),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("refusal", StopReason::Refused),
        ("tool_use", StopReason::End),
    ] {
        assert_eq!((stopped(reason).stop, stopped(reason).raw), (expected, None), "{reason}");
    }
    let code = |events: &[Value]| read(&stream(events)).map(|answer| answer.text).map_err(|error| error.code);
    let [reason, stop] = end("end_turn");
    assert_eq!(code(&[text[0].clone(), text[1].clone(), reason.clone()]), Ok("x".into()), "no message_stop");
    assert_eq!(code(&[start(), reason, stop.clone()]), Ok(String::new()), "empty");
    assert_eq!(code(&text), Err(ModelErrorCode::CutOff));
    assert_eq!(code(&[start(), stop]), Err(ModelErrorCode::CutOff));
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(code(&[start(), overloaded]), Err(ModelErrorCode::Overloaded));
    let long = delta(0, json!({"type": "text_delta", "text": "x".repeat(1 << 20)}));
    assert_eq!(code(&[&text[..], &vec![long; 5]].concat()), Err(ModelErrorCode::TooLarge));
    assert_eq!(code(&vec![block(0, json!(null)); 70_000]), Err(ModelErrorCode::TooLarge));
}

#[test]
fn an_answer_that_is_no_stream_is_read() {
    let content =
        json!([{"type": "text", "text": "x"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"b": 2}}]);
    let body = json!({"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 4, "output_tokens": 2}});
    let answer = read(&body.to_string()).unwrap();
    assert_eq!((answer.text.as_str(), answer.calls), ("x", vec![call("a", "f", r#"{"b":2}"#)]));
    assert_eq!(answer.tokens, Tokens { input: 4, cached: 0, output: 2 });
    let failed = json!({"type": "error", "error": {"type": "authentication_error", "message": "no"}});
    assert_eq!(read(&failed.to_string()).unwrap_err().code, ModelErrorCode::KeyRefused);
}

#[test]
fn requests_have_the_form_of_the_wire() {
    let picture = ToolImage { media_type: "image/png".into(), data: "AA==".into() };
    let drawing = ToolImage { media_type: "image/svg+xml".into(), data: "AA==".into() };
    let result = |id: &str, output: &str, images| CallResult {
        id: id.into(),
        name: "f".into(),
        output: output.into(),
        is_error: id == "b",
        images,
    };
    let calls = vec![call("a", "f", "{\"x\":1}"), call("b", "f", "{oh")];
    let tool =
        |name: &str| ToolDefinition { name: name.into(), description: "d".into(), schema: json!({"type": "object"}) };
    let request = ModelRequest {
        model: "claude-3-5-haiku-latest".into(),
        system: "s".into(),
        messages: vec![
            ModelMessage::Assistant(Said { text: "hello".into(), ..Said::default() }),
            ModelMessage::User(vec![UserPart::Text(" ".into())]),
            ModelMessage::Assistant(Said { text: " ".into(), calls, raw: None }),
            ModelMessage::Results(vec![result("a", "", vec![picture.clone(), drawing]), result("b", "", vec![])]),
            ModelMessage::User(vec![UserPart::Image(picture), UserPart::Text("see".into())]),
        ],
        tools: vec![tool("f"), tool("g")],
        max_output_tokens: None,
    };
    insta::assert_json_snapshot!(body(&request));
}

proptest! {
    #[test]
    fn chunks_do_not_matter(size in 1..80usize) {
        let text = whole();
        let split = read_chunks::<Message>(text.as_bytes().chunks(size));
        prop_assert_eq!(split, read_chunks::<Message>([text.as_bytes()]));
    }

    /// Damage never panics, and how it is cut does not matter.
    #[test]
    fn damage_is_an_error_or_an_answer(at in 0..1500usize, bytes in prop::collection::vec(any::<u8>(), 0..8), size in 1..80usize) {
        let mut damaged = whole().into_bytes();
        let at = at.min(damaged.len());
        let until = (at + bytes.len()).min(damaged.len());
        damaged.splice(at..until, bytes);
        let (pieces, done) = read_chunks::<Message>([damaged.as_slice()]);
        let (split, again) = read_chunks::<Message>(damaged.chunks(size));
        prop_assert_eq!(joined(split), joined(pieces));
        prop_assert_eq!(again, done);
    }
}
