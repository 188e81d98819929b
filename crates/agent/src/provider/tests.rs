//! Providers over HTTP, with servers on loopback: what is sent, what becomes of failures, and when one is given up.

use std::time::Duration;

use proptest::prelude::*;

use cabana_http::{AddressPolicy, Trust};
use cabana_types::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::anthropic::Message;
use super::openai::Completion;
use super::reader::{Decoder, joined, read_chunks};
use super::*;
use crate::model::{Answer, ModelError, ModelErrorCode as Code, ModelMessage, ModelRequest, Piece, UserPart};

const KEY: &str = "sk-secret-key";

/// Answers one request with these bytes and, unless `hold`, ends the connection. Gives the head of the request.
async fn server(answer: String, hold: bool) -> (String, oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, head) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
        while !got.ends_with(b"}") {
            let count = stream.read(&mut buffer).await.unwrap();
            got.extend_from_slice(&buffer[..count]);
        }
        let _ = sender.send(String::from_utf8(got).unwrap().to_lowercase());
        stream.write_all(answer.as_bytes()).await.unwrap();
        if hold {
            std::future::pending::<()>().await;
        }
    });
    (format!("http://{address}/v1/"), head)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

async fn ask(kind: Kind, base_url: &str, silence: Duration) -> (Result<Answer, ModelError>, Vec<Piece>) {
    let http = http_client(Trust::default(), AddressPolicy::Any, silence);
    let model =
        open(kind, ProviderConfig { base_url: base_url.into(), key: Some(Secret::new(format!("{KEY}\n"))), http });
    let messages = vec![ModelMessage::User(vec![UserPart::Text("hi".into())])];
    let request = ModelRequest { model: "m".into(), messages, ..ModelRequest::default() };
    let (sender, mut receiver) = mpsc::channel(100);
    let done = model.call(&request, &sender).await;
    drop(sender);
    let mut pieces = Vec::new();
    while let Some(piece) = receiver.recv().await {
        pieces.push(piece);
    }
    (done, pieces)
}

#[tokio::test]
async fn answers_come_over_http() {
    let openai = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]},\
                  \"finish_reason\":\"stop\"}]}\n\n";
    let (url, head) = server(ok(openai), false).await;
    let (done, pieces) = ask(Kind::OpenAi, &url, SILENCE).await;
    let answer = done.unwrap();
    assert_eq!((answer.text.as_str(), pieces), ("hello", vec![Piece::Text("hello".into())]));
    assert!(answer.calls[0].id.starts_with("call_"), "a missing id is made up");
    let head = head.await.unwrap();
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer sk-secret-key\r\n"), "{head}");

    let anthropic = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":\
                     {\"type\":\"text\",\"text\":\"hello\"}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\
                     \"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    // Held open: what was said is enough.
    let (url, head) = server(ok(anthropic), true).await;
    assert_eq!(ask(Kind::Anthropic, &url, SILENCE).await.0.unwrap().text, "hello");
    let head = head.await.unwrap();
    assert!(head.starts_with("post /v1/messages http/1.1\r\n"), "{head}");
    assert!(
        head.contains("x-api-key: sk-secret-key\r\n") && head.contains("anthropic-version: 2023-06-01\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn failures_are_told_with_a_hint() {
    let refused =
        format!("HTTP/1.1 401 No\r\nconnection: close\r\n\r\n{{\"error\":{{\"message\":\"wrong key {KEY}\"}}}}");
    let limited = "HTTP/1.1 429 No\r\nretry-after: 7\r\nconnection: close\r\n\r\n{}".to_owned();
    let endless = format!("HTTP/1.1 500 No\r\nconnection: close\r\n\r\n{}", "x".repeat(100_000));
    let moved = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\n\r\n".to_owned();
    let cut = ok("data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n");
    let short =
        "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n"
            .to_owned();
    for (answer, code) in [
        (refused, Code::KeyRefused),
        (limited, Code::Overloaded),
        (endless, Code::Unavailable),
        (moved, Code::Rejected),
        (cut, Code::CutOff),
        (short, Code::CutOff),
        ("SSH-2.0-OpenSSH\r\n".to_owned(), Code::Garbled),
    ] {
        let (url, _head) = server(answer.clone(), false).await;
        let error = ask(Kind::OpenAi, &url, SILENCE).await.0.unwrap_err();
        assert_eq!(error.code, code, "{answer:.60}: {error:?}");
        assert!(!format!("{error:?}").contains(KEY) && !error.hint.is_empty(), "{error:?}");
        assert!(error.message.chars().count() < 420, "{error:?}");
        assert_eq!(error.retry_after, (code == Code::Overloaded).then_some(Duration::from_secs(7)));
    }
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let closed = ask(Kind::OpenAi, &format!("http://{free}"), SILENCE).await.0.unwrap_err();
    assert_eq!(closed.code, Code::Unavailable);
    assert_eq!(ask(Kind::OpenAi, "not a url", SILENCE).await.0.unwrap_err().code, Code::Rejected);
}

#[tokio::test]
async fn silence_and_private_addresses_are_refused() {
    let brief = Duration::from_millis(50);
    let begun = ok("data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n");
    // The last one has time to arrive, also on a busy machine.
    for (answer, silence, got) in
        [("", brief, 0), ("HTTP/1.1 200 OK\r\n\r\n", brief, 0), (begun.as_str(), Duration::from_secs(3), 1)]
    {
        let (url, _head) = server(answer.to_owned(), true).await;
        let (done, pieces) = ask(Kind::OpenAi, &url, silence).await;
        assert_eq!((done.unwrap_err().code, pieces.len()), (Code::Silent, got), "{answer}");
    }
    let http = http_client(Trust::default(), AddressPolicy::public(), brief);
    let model = open(Kind::Anthropic, ProviderConfig { base_url: "http://127.0.0.1:9".into(), key: None, http });
    let error = model.call(&ModelRequest::default(), &mpsc::channel(1).0).await.unwrap_err();
    assert_eq!(error.code, Code::Rejected);
    assert!(error.hint.contains("configuration file"), "{}", error.hint);
}

#[test]
fn kinds_have_names_and_addresses() {
    for kind in [Kind::OpenAi, Kind::Anthropic] {
        assert_eq!(Kind::parse(kind.as_str()), Some(kind));
        assert!(kind.default_base_url().starts_with("https://"));
    }
    assert_eq!(Kind::parse("demo"), None);
}

/// A body of words that mean something to one wire or the other.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"\n\n",
        b"\r\n",
        b"data: ",
        b"event: error\n",
        b"{",
        b"[DONE]",
        b"\xff",
        b"{\"choices\":[{\"delta\":{\"content\":\"x\",\"reasoning\":\"y\"}}]}",
        b"{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1,\"id\":7,\"function\":{\"name\":\"f\",\"arguments\":[]}}]}}]}",
        b"{\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":18446744073709551615}}",
        b"{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"name\":\"f\"}}",
        b"{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}",
        b"{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":18446744073709551615}}",
        b"{\"type\":\"message_stop\"}",
        b"{\"error\":{\"code\":99999,\"message\":[]}}",
    ];
    prop::collection::vec(prop::sample::select(words), 0..30).prop_map(|words| words.concat())
}

fn is_the_same_in_chunks<D: Decoder>(body: &[u8], size: usize) {
    let (pieces, done) = read_chunks::<D>([body]);
    let (split, again) = read_chunks::<D>(body.chunks(size));
    assert_eq!((joined(split), again), (joined(pieces), done));
}

proptest! {
    #[test]
    fn bodies_of_any_content_are_read(body in body(), size in 1..40usize) {
        is_the_same_in_chunks::<Completion>(&body, size);
        is_the_same_in_chunks::<Message>(&body, size);
    }

    #[test]
    fn bodies_of_any_bytes_are_read(body in prop::collection::vec(any::<u8>(), 0..200), size in 1..40usize) {
        is_the_same_in_chunks::<Completion>(&body, size);
        is_the_same_in_chunks::<Message>(&body, size);
    }
}
