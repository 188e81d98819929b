//! Chats by OpenAI's wire. The demo answers, without tools.

use serde_json::{Value, json};

use crate::http::Answer;
use crate::server::TestServer;
use crate::tenants::{as_other, with_another_team};

fn ask(server: &TestServer, headers: &[(&str, &str)], mut body: Value) -> Answer {
    if body.get("messages").is_none() {
        body["messages"] = json!([{"role": "user", "content": "Who are you?"}]);
    }
    let mut all = vec![("authorization", "")];
    let bearer = format!("Bearer {}", server.key);
    all[0].1 = &bearer;
    all.extend_from_slice(headers);
    let body = body.to_string();
    crate::http::send(server.address, "POST", "/v1/chat/completions", &all, Some(body.as_bytes())).expect("answer")
}

/// The JSON of each event of a stream.
fn chunks(answer: &Answer) -> Vec<Value> {
    let text = answer.text.replace('\r', "");
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    lines.map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))).collect()
}

fn agent(server: &TestServer, name: &str) -> String {
    server.post("/agents", json!({"name": name, "model": "demo/demo", "tools": []})).is(201).member("id")
}

#[test]
fn a_completion_is_a_turn_of_a_chat() {
    let server = TestServer::start();
    let id = agent(&server, "Helper one");
    let answer = ask(&server, &[], json!({"model": "agent/Helper one", "temperature": 0.5})).is(200);
    let body = answer.json();
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("agent/Helper one")));
    let choice = &body["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["role"]), (&json!("stop"), &json!("assistant")));
    let said = choice["message"]["content"].as_str().expect("text");
    assert!(!said.is_empty());
    assert!(
        body["usage"]["total_tokens"].is_u64() && body["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-"))
    );
    let chat = answer.header("x-chat-id").expect("a chat").to_owned();
    let row = server.get(&format!("/chats/{chat}")).is(200).json();
    assert_eq!((&row["agentId"], &row["title"]), (&json!(id), &json!("Who are you?")));

    // It goes on, by header or by metadata, with the last message only.
    let messages = json!([{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": said}, {"role": "user", "content": "And now?"}]);
    let again = ask(&server, &[("x-chat-id", &chat)], json!({"model": id, "messages": messages})).is(200);
    assert_eq!(again.header("x-chat-id"), Some(chat.as_str()));
    ask(&server, &[], json!({"model": format!("agent/{id}"), "metadata": {"chat_id": chat}})).is(200);
    let page = server.get(&format!("/chats/{chat}/messages")).is(200).json();
    let texts: Vec<_> = page["messages"].as_array().expect("messages").iter().filter(|m| m["role"] == "user").collect();
    let texts: Vec<_> = texts.iter().map(|m| m["content"][0]["text"].as_str().expect("text")).collect();
    assert_eq!(texts, ["Who are you?", "And now?", "Who are you?"]);

    // A new chat gets what was said before, told apart.
    let fresh = ask(&server, &[], json!({"model": "agent/Helper one", "messages": messages})).is(200);
    let other = fresh.header("x-chat-id").expect("a chat").to_owned();
    assert_ne!(other, chat);
    let page = server.get(&format!("/chats/{other}/messages")).is(200).json();
    let first = page["messages"][0]["content"][0]["text"].as_str().expect("text");
    assert!(first.contains("<message role=\"assistant\">") && first.ends_with("\nAnd now?"), "{first}");
    assert_eq!(server.get(&format!("/chats/{other}")).is(200).json()["title"], "And now?");
}

#[test]
fn a_completion_is_streamed() {
    let server = TestServer::start();
    agent(&server, "Helper");
    let whole = ask(&server, &[], json!({"model": "agent/Helper"})).is(200).json();
    let body = json!({"model": "agent/Helper", "stream": true, "stream_options": {"include_usage": true}});
    let answer = ask(&server, &[], body).is(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert!(answer.header("x-chat-id").is_some() && answer.text.contains("data: [DONE]\n\n"), "{}", answer.text);
    let chunks = chunks(&answer);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"] && chunk["object"] == "chat.completion.chunk"));
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, whole["choices"][0]["message"]["content"].as_str().expect("text"), "the same as at once");
    let [.., last, usage] = &chunks[..] else { panic!("{chunks:?}") };
    assert_eq!((&last["choices"][0]["finish_reason"], &last["usage"]), (&json!("stop"), &json!(null)));
    assert_eq!((&usage["choices"], usage["usage"]["prompt_tokens"].is_u64()), (&json!([]), true));
    let plain = ask(&server, &[], json!({"model": "agent/Helper", "stream": true})).is(200);
    assert!(!plain.text.contains("\"usage\""), "{}", plain.text);
}

#[test]
fn models_and_errors_have_openais_form() {
    let server = with_another_team();
    agent(&server, "Helper");
    let list = server.get("/v1/models").is(200).json();
    let ids: Vec<_> = list["data"].as_array().expect("models").iter().map(|m| m["id"].as_str().expect("id")).collect();
    assert_eq!((&list["object"], ids), (&json!("list"), vec!["agent/Helper", "demo/demo"]));
    let other = as_other(&server, "GET", "/v1/models", None).is(200).json();
    assert_eq!(other["data"].as_array().map(Vec::len), Some(1));

    for (body, status, code, said) in [
        (json!({"model": "agent/Nobody"}), 404, "agent_not_found", "agent/Nobody"),
        (json!({"model": "nobody/x"}), 400, "model_not_found", "there are demo"),
        (json!({"model": "gpt-4o"}), 400, "model_not_found", "write PROVIDER/MODEL"),
        (json!({"model": "demo/demo", "tools": [{"type": "function"}]}), 400, "invalid_request", "tools is not taken"),
        (json!({"model": "demo/demo", "metadata": {"chat_id": "chat_x"}}), 404, "chat_not_found", "chat_x"),
        (json!({"model": "demo/demo", "messages": 1}), 400, "invalid_request", "expected a sequence"),
        (
            json!({"model": "demo/demo", "messages": [{"role": "user", "content": " "}]}),
            400,
            "invalid_request",
            "empty",
        ),
    ] {
        let answer = ask(&server, &[], body);
        let message = answer.error(status, code);
        let error = &answer.json()["error"];
        assert!(
            message.contains(said) && error["message"] == message && error["code"] == code,
            "{said}: {}",
            answer.text
        );
        assert_eq!(error["type"], "invalid_request_error");
    }
    // The chat of another team is not found.
    let chat =
        ask(&server, &[], json!({"model": "agent/Helper"})).is(200).header("x-chat-id").expect("chat").to_owned();
    let body =
        json!({"model": "demo/demo", "messages": [{"role": "user", "content": "x"}], "metadata": {"chat_id": chat}});
    as_other(&server, "POST", "/v1/chat/completions", Some(&body.to_string())).error(404, "chat_not_found");
}
