//! MCP: messages to the server, and its answers as JSON or as a stream of events.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cabana_http::ResponseBody;
use cabana_types::SandboxId;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use http_body_util::BodyExt;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use crate::api::Client;
use crate::error::{Error, Result, root_cause};
use crate::http::collect;

const ACTION: &str = "speak MCP";
/// Bytes of one answer: text and an image.
const MAX_MESSAGE: usize = 32 << 20;
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The tools of a server, by the Model Context Protocol.
#[derive(Debug, Clone)]
pub struct Mcp {
    client: Client,
    path: String,
}

impl Client {
    /// Speaks MCP: with a sandbox for calls that name none, and with a list of sets and names of tools.
    pub fn mcp(&self, sandbox: Option<&SandboxId>, tools: Option<&str>) -> Mcp {
        let mut query = Serializer::new(String::new());
        if let Some(sandbox) = sandbox {
            query.append_pair("sandbox", sandbox.as_str());
        }
        if let Some(tools) = tools {
            query.append_pair("tools", tools);
        }
        let query = query.finish();
        let path = if query.is_empty() { "/mcp".to_owned() } else { format!("/mcp?{query}") };
        Mcp { client: self.clone(), path }
    }
}

impl Mcp {
    /// Sends a message in the revision of the protocol that was agreed on. Dropping the answers cancels the request.
    pub async fn send(&self, message: &Value, version: Option<&str>) -> Result<Answers> {
        let body = serde_json::to_vec(message).map_err(|e| Error::InvalidInput(format!("cannot {ACTION}: {e}")))?;
        let mut request = self.client.request(Method::POST, &self.path, Some(body))?;
        describe(request.headers_mut(), message, version);
        let response = self.client.http().exchange(ACTION, request).await?;
        let status = response.status();
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        if status.is_success() && kind.starts_with("text/event-stream") {
            return Ok(Answers(Form::Events(Box::new(response), Events::default())));
        }
        let bytes = collect(ACTION, response, MAX_MESSAGE as u64).await?;
        // Errors of the protocol come with a status of their own.
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(message) if message["jsonrpc"] == "2.0" => Ok(Answers(Form::Rest(Some(message)))),
            _ if status.is_success() && bytes.is_empty() => Ok(Answers(Form::Rest(None))),
            _ if status.is_success() => Err(malformed("it is not a JSON-RPC message")),
            _ => Err(crate::http::refused(ACTION, status, &bytes)),
        }
    }
}

/// Headers that repeat what is in the message.
fn describe(headers: &mut HeaderMap, message: &Value, version: Option<&str>) {
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let params = &message["params"];
    let named = match message["method"].as_str() {
        Some("tools/call" | "prompts/get") => params["name"].as_str(),
        Some("resources/read") => params["uri"].as_str(),
        _ => None,
    };
    let own = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
    for (name, text) in [(METHOD, message["method"].as_str()), (NAME, named), (VERSION, own.or(version))] {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(&encoded(text)).ok()) {
            headers.insert(name, value);
        }
    }
}

/// The protocol's form of a text that cannot be in a header as it is.
fn encoded(text: &str) -> String {
    let is_plain =
        text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && text.trim() == text && !text.starts_with("=?");
    if is_plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

fn malformed(reason: &str) -> Error {
    Error::Answer { action: ACTION, reason: reason.to_owned() }
}

/// The messages with which a server answers one message.
#[derive(Debug)]
pub struct Answers(Form);

#[derive(Debug)]
enum Form {
    /// As they come; with what has arrived.
    Events(Box<Response<ResponseBody>>, Events),
    /// At most one more.
    Rest(Option<Value>),
}

impl Answers {
    /// The next message; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        let (response, events) = match &mut self.0 {
            Form::Rest(message) => return Ok(message.take()),
            Form::Events(response, events) => (response, events),
        };
        loop {
            if let Some(message) = events.take()? {
                return Ok(Some(message));
            }
            match response.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        events.push(&data)?;
                    }
                }
                Some(Err(error)) => {
                    return Err(Error::Connection { action: ACTION, source: root_cause(&error).into() });
                }
            }
        }
    }
}

/// Reads server-sent events.
#[derive(Debug, Default)]
struct Events {
    /// Lines that are not read yet.
    waiting: Vec<u8>,
    /// Where to look for the end of the next line.
    searched: usize,
    /// Data of the event whose end has not come yet.
    data: Vec<u8>,
}

impl Events {
    fn push(&mut self, bytes: &Bytes) -> Result<()> {
        if self.waiting.len() + self.data.len() + bytes.len() > MAX_MESSAGE {
            return Err(malformed("an event is too large"));
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    /// The next message that is complete.
    fn take(&mut self) -> Result<Option<Value>> {
        while let Some(end) = self.waiting[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.waiting.drain(..=self.searched + end).collect();
            self.searched = 0;
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            } else if line.is_empty() && !self.data.is_empty() {
                let data = std::mem::take(&mut self.data);
                let message = serde_json::from_slice(&data).map_err(|_| malformed("an event is not JSON"))?;
                return Ok(Some(message));
            }
        }
        self.searched = self.waiting.len();
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_however_they_are_split() {
        let text = ": ping\r\n\r\nid: 1\nretry: 5\ndata:\n\ndata: {\"a\":\ndata: \"ä\"}\n\nevent: x\r\ndata:[1]\r\n\r\ndata: {\"cut\"";
        for size in 1..text.len() {
            let mut events = Events::default();
            let mut read = vec![];
            for part in text.as_bytes().chunks(size) {
                events.push(&Bytes::copy_from_slice(part)).expect("small");
                while let Some(message) = events.take().expect("JSON") {
                    read.push(message);
                }
            }
            assert_eq!(read, [json!({"a": "ä"}), json!([1])], "{size}");
        }
        let mut events = Events::default();
        events.push(&Bytes::from_static(b"data: no\n\n")).expect("small");
        assert!(events.take().is_err());
        assert!(events.push(&Bytes::from(vec![b'x'; MAX_MESSAGE])).is_ok());
        assert!(events.push(&Bytes::from_static(b"x")).is_err());
    }

    #[test]
    fn headers_repeat_the_message() {
        let headers = |message: Value, version| {
            let mut headers = HeaderMap::new();
            describe(&mut headers, &message, version);
            let text = |name: HeaderName| headers.get(name).map(|v| v.to_str().expect("text").to_owned());
            (text(VERSION), text(METHOD), text(NAME))
        };
        let owned = |text: &str| Some(text.to_owned());
        assert_eq!(headers(json!({"method": "initialize"}), None), (None, owned("initialize"), None));
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let call = json!({"method": "tools/call", "params": {"name": "ä", "_meta": meta}});
        assert_eq!(
            headers(call, Some("2025-06-18")),
            (owned("2026-07-28"), owned("tools/call"), owned("=?base64?w6Q=?="))
        );
        assert_eq!(headers(json!([]), Some("2025-06-18")), (owned("2025-06-18"), None, None));
        for (text, sent) in
            [("a b", "a b"), (" a", "=?base64?IGE=?="), ("=?x", "=?base64?PT94?="), ("a\r\nb", "=?base64?YQ0KYg==?=")]
        {
            assert_eq!(encoded(text), sent);
        }
    }
}
