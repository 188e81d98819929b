//! Chunks in, answers out.

use cabana_types::chat::StopReason;
use proptest::prelude::*;

use super::decode::Completion;
use super::*;
use crate::model::{ModelCall, ModelErrorCode, Tokens, ToolDefinition};
use crate::provider::reader::{joined, read_chunks};

fn read(text: &str) -> Result<Answer, ModelError> {
    read_chunks::<Completion>([text.as_bytes()]).1
}

/// A stream of these deltas.
fn stream(deltas: &[Value], reason: &str) -> String {
    let mut text = String::new();
    for delta in deltas {
        text += &format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}));
    }
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    text + &format!("data: {end}\n\ndata: [DONE]\n\n")
}

fn call(id: &str, name: &str, arguments: &str) -> ModelCall {
    ModelCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

const WHOLE: &str = concat!(
    ": OPENROUTER PROCESSING\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"Hm\"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hä\",\"unknown\":1},\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"llo\"}},{\"index\":1,\"delta\":{\"content\":\"no\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",",
    "\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"c2\",\"function\":{\"name\":\"g\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"\",\"function\":{\"arguments\":\":1}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\n",
    "data: [DONE]\n\n",
);

#[test]
fn a_stream_becomes_an_answer() {
    let (pieces, answer) = read_chunks::<Completion>([WHOLE.as_bytes()]);
    let (reasoning, text) = (Piece::Reasoning, Piece::Text);
    assert_eq!(pieces, [reasoning("Hm".into()), text("Hä".into()), text("llo".into())]);
    let expected = Answer {
        text: "Hällo".into(),
        reasoning: "Hm".into(),
        calls: vec![call("c1", "f", r#"{"a":1}"#), call("c2", "g", "{}")],
        raw: Some(json!({"reasoning_content": "Hm"})),
        stop: StopReason::Tools,
        tokens: Tokens { input: 9, cached: 3, output: 4 },
    };
    assert_eq!(answer.unwrap(), expected);
}

#[test]
fn calls_are_told_apart_as_servers_send_them() {
    let function = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let one = |call: Value| json!({"tool_calls": [call]});
    let (a, b) = (call("", "f", r#"{"a":1}"#), call("", "g", r#"{"b":2}"#));
    for (what, deltas, expected) in [
        (
            "whole, without ids and numbers",
            vec![
                one(json!({"function": function("f", json!({"a": 1}))})),
                one(json!({"function": function("g", json!({"b": 2}))})),
            ],
            vec![a.clone(), b.clone()],
        ),
        (
            "whole, all with number 0",
            vec![
                one(json!({"index": 0, "function": function("f", json!("{\"a\":1}"))})),
                one(json!({"index": 0, "function": function("g", json!("{\"b\":2}"))})),
            ],
            vec![a.clone(), b.clone()],
        ),
        (
            "number 0 and ids",
            vec![
                one(json!({"index": 0, "id": "x", "function": function("f", json!("{}"))})),
                one(json!({"index": 0, "id": "y", "function": function("f", json!("{}"))})),
            ],
            vec![call("x", "f", "{}"), call("y", "f", "{}")],
        ),
        (
            "ids instead of numbers, repeated",
            vec![
                one(json!({"id": "x", "function": function("f", json!("{\"a\""))})),
                one(json!({"id": "x", "function": function("f", json!(":1}"))})),
            ],
            vec![call("x", "f", r#"{"a":1}"#)],
        ),
        (
            "pieces without any name",
            vec![
                one(json!({"function": function("f", Value::Null)})),
                one(json!({"function": {"arguments": "{\"a\""}})),
                one(json!({"index": 7, "function": {"arguments": ":1}"}})),
            ],
            vec![a.clone()],
        ),
        (
            "the older form",
            vec![
                json!({"function_call": {"name": "f", "arguments": "{\"a\""}}),
                json!({"function_call": {"arguments": ":1}"}}),
            ],
            vec![a],
        ),
        (
            "malformed",
            vec![one(json!({"index": 0, "function": function("f", json!("{\"a"))}))],
            vec![call("", "f", "{\"a")],
        ),
        ("nothing", vec![one(json!({"index": 0})), one(json!(null)), json!({"tool_calls": null})], vec![]),
    ] {
        assert_eq!(read(&stream(&deltas, "stop")).unwrap().calls, expected, "{what}");
    }
    let nameless = stream(&[one(json!({"index": 0, "function": {"arguments": "{}"}}))], "tool_calls");
    assert_eq!(read(&nameless).unwrap_err().code, ModelErrorCode::Garbled);
}

#[test]
fn reasons_to_stop() {
    let text = json!({"content": "x"});
    let tool = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]});
    for (delta, reason, expected) in [
        (&text, "stop", StopReason::End),
        (&text, "eos", StopReason::End),
        (&text, "tool_calls", StopReason::End),
        (&tool, "stop", StopReason::Tools),
        (&tool, "function_call", StopReason::Tools),
        (&tool, "length", StopReason::Length),
        (&text, "content_filter", StopReason::Refused),
        (&json!({"refusal": "No."}), "stop", StopReason::Refused),
        (&json!({}), "stop", StopReason::End),
    ] {
        assert_eq!(read(&stream(std::slice::from_ref(delta), reason)).unwrap().stop, expected, "{delta} {reason}");
    }
}

#[test]
fn ends_and_errors() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let stopped = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}";
    let code = |stream: String| read(&stream).map(|answer| answer.text).map_err(|error| error.code);
    assert_eq!(code(format!("{text}{stopped}\n\n")), Ok("x".into()), "no [DONE]");
    assert_eq!(code(format!("{text}{stopped}")), Ok("x".into()), "no blank line");
    assert_eq!(code(format!("{text}data: [DONE]\n\n")), Ok("x".into()), "no reason");
    assert_eq!(code(text.into()), Err(ModelErrorCode::CutOff));
    assert_eq!(code(format!("{text}data: {{\"choi")), Err(ModelErrorCode::CutOff));
    assert_eq!(code("data: [DONE]\n\n".into()), Err(ModelErrorCode::CutOff));
    assert_eq!(code(String::new()), Err(ModelErrorCode::CutOff));
    assert_eq!(code("<html>sign in</html>".into()), Err(ModelErrorCode::Garbled));
    assert_eq!(code("data: nonsense\n\n".into()), Err(ModelErrorCode::Garbled));
    assert_eq!(code(format!("{text}data: {{\"error\":{{\"code\":502}}}}\n\n")), Err(ModelErrorCode::Unavailable));
    assert_eq!(code("event: error\ndata: {\"message\":\"x\"}\n\n".into()), Err(ModelErrorCode::Unavailable));
    let long = json!({"choices": [{"delta": {"content": "x".repeat(1 << 20)}}]});
    assert_eq!(code(format!("data: {long}\n\n").repeat(5)), Err(ModelErrorCode::TooLarge));
    let many = json!({"choices": [{"delta": {"tool_calls": vec![json!({"function": {"name": "f"}}); 1000]}}]});
    assert_eq!(code(format!("data: {many}\n\n").repeat(100)), Err(ModelErrorCode::TooLarge));
}

#[test]
fn an_answer_that_is_no_stream_is_read() {
    let body = json!({
        "choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant", "content": "x", "reasoning": "r",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    });
    let answer = read(&format!("\n {body}")).unwrap();
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str(), answer.stop), ("x", "r", StopReason::Tools));
    assert_eq!((answer.calls, answer.tokens.output), (vec![call("a", "f", "{}")], 2));
    assert_eq!(answer.raw, None);
    assert_eq!(read("{\"choices\":").unwrap_err().code, ModelErrorCode::CutOff);
    assert_eq!(read("{nonsense}").unwrap_err().code, ModelErrorCode::Garbled);
    assert_eq!(read("{\"error\":{\"message\":\"no\"}}").unwrap_err().code, ModelErrorCode::Unavailable);
}

#[test]
fn requests_have_the_form_of_the_wire() {
    let picture = ToolImage { media_type: "image/png".into(), data: "AA==".into() };
    let result =
        |id: &str, images| CallResult { id: id.into(), name: "f".into(), output: "o".into(), is_error: true, images };
    let said = Said {
        text: String::new(),
        calls: vec![call("a", "f", "{\"x\":1}"), call("b", "f", "{oh")],
        raw: Some(json!({"reasoning_content": "r"})),
    };
    let request = ModelRequest {
        model: "m".into(),
        system: "s".into(),
        messages: vec![
            ModelMessage::User(vec![UserPart::Text("one".into()), UserPart::Text("two".into())]),
            ModelMessage::Assistant(said.clone()),
            ModelMessage::Results(vec![result("a", vec![picture.clone()]), result("b", vec![])]),
            ModelMessage::User(vec![UserPart::Text("see".into()), UserPart::Image(picture)]),
            ModelMessage::Assistant(Said { text: "t".into(), ..said }),
            ModelMessage::Results(vec![result("a", vec![]), result("b", vec![])]),
        ],
        tools: vec![ToolDefinition { name: "f".into(), description: "d".into(), schema: json!({"type": "object"}) }],
        max_output_tokens: Some(7),
    };
    insta::assert_json_snapshot!(body(&request, false));
    assert_eq!(body(&request, true)["max_completion_tokens"], 7);
}

proptest! {
    #[test]
    fn chunks_do_not_matter(size in 1..80usize) {
        let whole = read_chunks::<Completion>([WHOLE.as_bytes()]);
        let split = read_chunks::<Completion>(WHOLE.as_bytes().chunks(size));
        prop_assert_eq!(split, whole);
    }

    /// Damage never panics, and how it is cut does not matter.
    #[test]
    fn damage_is_an_error_or_an_answer(at in 0..WHOLE.len(), bytes in prop::collection::vec(any::<u8>(), 0..8), size in 1..80usize) {
        let mut damaged = WHOLE.as_bytes().to_vec();
        damaged.splice(at..(at + bytes.len()).min(WHOLE.len()), bytes);
        let (whole, done) = read_chunks::<Completion>([damaged.as_slice()]);
        let (split, again) = read_chunks::<Completion>(damaged.chunks(size));
        prop_assert_eq!(joined(split), joined(whole));
        prop_assert_eq!(again, done);
    }
}
