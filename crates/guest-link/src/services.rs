//! The host's requests for services.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use cabana_types::guest::services::{END_PATH, LISTENING_PATH, Listening, MAX_OUTPUT, MAX_WAIT, OUTPUT_PATH, Output};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;

use crate::GuestLink;

/// How much longer than asked the guest may take.
const MARGIN: Duration = Duration::from_secs(5);
/// How long the guest kills what does not end, and a little more.
const KILLING: Duration = Duration::from_secs(15);
/// Limit of a small answer, bytes.
const MAX_ANSWER: usize = 16 << 10;
/// Limit of an answer with output in base 64, bytes.
const MAX_OUTPUT_ANSWER: usize = MAX_OUTPUT / 3 * 4 + MAX_ANSWER;

/// What of a service's output is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputQuery {
    /// Cursor from which on; `None` for the newest.
    pub after: Option<u64>,
    /// At most so many bytes.
    pub max: usize,
    /// How long to wait for output at the cursor, or the end.
    pub wait: Duration,
    /// Whether to wait for the end only.
    pub end_only: bool,
}

impl Default for OutputQuery {
    fn default() -> Self {
        Self { after: None, max: MAX_OUTPUT, wait: Duration::ZERO, end_only: false }
    }
}

/// Guests of earlier versions have no such operations: [`io::ErrorKind::Unsupported`].
impl GuestLink {
    /// Waits until something listens on a port or, without one, until the service does; or until it is gone. At most a minute.
    pub async fn listening(&self, port: Option<u16>, tag: Option<&str>, wait: Duration) -> io::Result<Listening> {
        let wait = bounded(wait);
        let mut path = format!("{LISTENING_PATH}?wait={}", wait.as_secs_f64());
        if let Some(port) = port {
            write!(path, "&port={port}").map_err(io::Error::other)?;
        }
        if let Some(tag) = tag {
            write!(path, "&tag={}", encoded(tag)).map_err(io::Error::other)?;
        }
        answer(self.call(Method::GET, &path, wait + MARGIN, MAX_ANSWER).await?)
    }

    /// Output of a service, and whether its command runs. Reading it never holds the command up.
    pub async fn output(&self, tag: &str, query: OutputQuery) -> io::Result<Output> {
        let (wait, max) = (bounded(query.wait), query.max.min(MAX_OUTPUT));
        let mut path = format!("{OUTPUT_PATH}?tag={}&max={max}&wait={}", encoded(tag), wait.as_secs_f64());
        if let Some(after) = query.after {
            write!(path, "&after={after}").map_err(io::Error::other)?;
        }
        if query.end_only {
            path.push_str("&end=true");
        }
        answer(self.call(Method::GET, &path, wait + MARGIN, MAX_OUTPUT_ANSWER).await?)
    }

    /// Terminates all processes of a service, kills what is left after some seconds, and waits for it.
    pub async fn end(&self, tag: &str, seconds: u64) -> io::Result<()> {
        let seconds = seconds.min(MAX_WAIT);
        let path = format!("{END_PATH}?tag={}&seconds={seconds}", encoded(tag));
        match self.call(Method::POST, &path, Duration::from_secs(seconds) + KILLING, MAX_ANSWER).await? {
            (StatusCode::NO_CONTENT, _) => Ok(()),
            refused => Err(refusal(&refused)),
        }
    }
}

fn bounded(wait: Duration) -> Duration {
    wait.min(Duration::from_secs(MAX_WAIT))
}

fn answer<T: DeserializeOwned>(answer: (StatusCode, Bytes)) -> io::Result<T> {
    match answer {
        (StatusCode::OK, body) => serde_json::from_slice(&body).map_err(io::Error::other),
        refused => Err(refusal(&refused)),
    }
}

fn refusal((status, _): &(StatusCode, Bytes)) -> io::Error {
    match *status {
        StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED => io::ErrorKind::Unsupported.into(),
        status => io::Error::other(format!("status {status}")),
    }
}

/// A value for a query.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tests::{answer, guest};

    #[tokio::test]
    async fn requests_and_answers() {
        let dir = tempfile::tempdir().unwrap();
        let listens = answer(r#"{"boot":"b","port":80,"pid":7,"process":"node","own":true,"alive":true}"#);
        let nothing = answer(r#"{"boot":"b"}"#);
        let none = "HTTP/1.1 204 No Content\r\n\r\n";
        let old = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        let stuck = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
        let (link, mut told) =
            guest(&dir, &[&listens, &nothing, &nothing, &nothing, none, stuck, old, old, "nonsense\r\n\r\n"]);
        let tag = Some("service:svc_a/1");
        let found = link.listening(Some(80), tag, Duration::from_millis(1500)).await.unwrap();
        assert_eq!((found.port, found.pid, found.own), (Some(80), Some(7), true));
        assert_eq!(link.listening(None, Some("service:a b&c"), Duration::MAX).await.unwrap().port, None);
        assert_eq!(link.output("service:a", OutputQuery::default()).await.unwrap().command, None);
        let query = OutputQuery { after: Some(5), max: usize::MAX, wait: Duration::from_secs(9), end_only: true };
        assert_eq!(link.output("service:a", query).await.unwrap().boot, "b");
        link.end("service:a", 100).await.unwrap();
        assert!(link.end("service:a", 1).await.is_err());
        assert_eq!(link.end("service:a", 1).await.unwrap_err().kind(), io::ErrorKind::Unsupported);
        let unsupported = link.listening(Some(1), None, Duration::ZERO).await.unwrap_err();
        assert_eq!(unsupported.kind(), io::ErrorKind::Unsupported);
        assert!(link.output("service:a", OutputQuery::default()).await.is_err());
        for line in [
            "GET /listening?wait=1.5&port=80&tag=service:svc_a/1",
            "GET /listening?wait=60&tag=service:a%20b%26c",
            "GET /output?tag=service:a&max=1048576&wait=0",
            "GET /output?tag=service:a&max=1048576&wait=9&after=5&end=true",
            "POST /end?tag=service:a&seconds=60",
        ] {
            assert_eq!(told.recv().await.unwrap(), format!("{line} HTTP/1.1"));
        }
    }

    #[tokio::test]
    async fn answers_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let large = answer(&format!(r#"{{"boot":"{}"}}"#, "x".repeat(MAX_ANSWER)));
        let largest = format!(r#"{{"boot":"b","command":{{"pid":1,"begin":0,"data":"{}"}}}}"#, "x".repeat(1_398_104));
        let (link, _told) = guest(&dir, &[&large, &answer(&largest), &answer(&"x".repeat(MAX_OUTPUT_ANSWER + 1))]);
        assert!(link.listening(Some(1), None, Duration::ZERO).await.is_err());
        assert!(link.output("service:a", OutputQuery::default()).await.is_ok());
        assert!(link.output("service:a", OutputQuery::default()).await.is_err());
    }
}
