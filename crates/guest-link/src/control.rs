//! The host's requests to a guest's control port. Responses are untrusted: bounded in size and time.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use cabana_http1::{Head, Sender, handshake};
use cabana_types::Secret;
use cabana_types::guest::{
    ACTIVITY_PATH, Activity, BRIDGE_PATH, BRIDGE_PROTOCOL, HEALTH_PATH, JOURNAL_PATH, MAX_READY_LINE, MAX_READY_LINES,
    READY_PATH, Readiness, STOP_PATH, STOP_SECONDS, TRUST_PATH, Trust,
};
use cabana_types::routing::ACCESS_TOKEN_HEADER;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Full, Limited};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::{GuestLink, Port};

/// A healthy guest responds within this time.
const PROMPT: Duration = Duration::from_secs(3);
/// The same for a bridge, including the connection inside.
const BRIDGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Default limit of a response, bytes.
const MAX_ANSWER: usize = 64 * 1024;
/// Limit of a readiness response: every byte may be escaped.
const MAX_READINESS: usize = (MAX_READY_LINES + 1) * (6 * MAX_READY_LINE + 8) + 256;

impl GuestLink {
    /// Whether the guest responds.
    pub async fn is_healthy(&self) -> bool {
        matches!(self.call(Method::GET, HEALTH_PATH, PROMPT, MAX_ANSWER).await, Ok((StatusCode::NO_CONTENT, _)))
    }

    /// Current activity of the guest.
    pub async fn activity(&self) -> io::Result<Activity> {
        let (_, body) = self.call(Method::GET, ACTIVITY_PATH, PROMPT, MAX_ANSWER).await?;
        serde_json::from_slice(&body).map_err(io::Error::other)
    }

    /// Waits until the guest reports whether the sandbox is ready, up to `limit`.
    pub async fn readiness(&self, limit: Duration) -> io::Result<Readiness> {
        let path = format!("{READY_PATH}?seconds={}", limit.as_secs());
        match self.call(Method::GET, &path, limit + PROMPT, MAX_READINESS).await? {
            (StatusCode::OK, body) => serde_json::from_slice(&body).map_err(io::Error::other),
            (status, _) => Err(io::Error::other(format!("status {status}"))),
        }
    }

    /// Makes programs inside trust a certificate authority. Guests of earlier versions cannot: [`io::ErrorKind::Unsupported`].
    pub async fn trust(&self, trust: &Trust) -> io::Result<()> {
        let body = serde_json::to_vec(trust).map_err(io::Error::other)?;
        match self.send(Method::POST, TRUST_PATH, body.into(), PROMPT, MAX_ANSWER).await? {
            (StatusCode::NO_CONTENT, _) => Ok(()),
            (StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED, _) => Err(io::ErrorKind::Unsupported.into()),
            (status, _) => Err(io::Error::other(format!("status {status}"))),
        }
    }

    /// Makes the guest terminate all other processes, and waits for it.
    pub async fn stop(&self) -> io::Result<()> {
        let limit = Duration::from_secs(STOP_SECONDS) + PROMPT;
        self.call(Method::POST, STOP_PATH, limit, MAX_ANSWER).await.map(drop)
    }

    /// The guest's journal as JSON, at most `max_bytes`.
    pub async fn journal(&self, max_bytes: usize) -> io::Result<Bytes> {
        match self.call(Method::GET, JOURNAL_PATH, PROMPT, max_bytes).await? {
            (StatusCode::OK, body) => Ok(body),
            (status, _) => Err(io::Error::other(format!("status {status}"))),
        }
    }

    /// The last entries of the guest's journal as JSON, within a time. A guest of an earlier version sends all.
    pub async fn last_of_journal(&self, last: usize, limit: Duration, max_bytes: usize) -> io::Result<Bytes> {
        match self.call(Method::GET, &format!("{JOURNAL_PATH}?last={last}"), limit, max_bytes).await? {
            (StatusCode::OK, body) => Ok(body),
            (status, _) => Err(io::Error::other(format!("status {status}"))),
        }
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        limit: Duration,
        max_bytes: usize,
    ) -> io::Result<(StatusCode, Bytes)> {
        self.send(method, path, Bytes::new(), limit, max_bytes).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
        max_bytes: usize,
    ) -> io::Result<(StatusCode, Bytes)> {
        let called = async {
            let head = Head::default();
            let (mut sender, connection) = handshake(head.plain(self.connect(Port::Control).await?), head).await?;
            // Aborted at the end of this call, also if the guest never responds.
            let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
            let request = Request::builder().method(method).uri(path).header(HOST, "guest").body(Full::new(body));
            let response = sender.send(request.map_err(io::Error::other)?).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), max_bytes).collect().await.map_err(io::Error::other)?;
            Ok((status, body.to_bytes()))
        };
        timeout(limit, called).await?
    }
}

/// Turns an HTTP connection to the control port into a connection to a port on the sandbox's loopback.
pub async fn bridge(
    sender: &mut Sender<Empty<Bytes>>,
    port: u16,
    token: Option<&Secret>,
) -> io::Result<hyper::upgrade::Upgraded> {
    let mut request = Request::get(format!("{BRIDGE_PATH}?port={port}"))
        .header(HOST, "guest")
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, BRIDGE_PROTOCOL);
    if let Some(token) = token {
        request = request.header(ACCESS_TOKEN_HEADER, token.expose());
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
    let bridged = async {
        let response = sender.send(request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("bridge: {}", response.status())));
        }
        hyper::upgrade::on(response).await.map_err(io::Error::other)
    };
    timeout(BRIDGE_TIMEOUT, bridged).await?
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::Ipv4Addr;
    use std::path::PathBuf;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    /// A guest whose control port sends these responses, one per connection; received requests are forwarded.
    pub(crate) fn guest(
        dir: &tempfile::TempDir,
        answers: &[&str],
    ) -> (GuestLink, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let control = dir.path().join("control");
        let listener = UnixListener::bind(&control).unwrap();
        let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
        let (tell, told) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let line = String::from_utf8(head).unwrap().lines().next().unwrap().to_owned();
                tell.send(line).unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (GuestLink::Unix { control, traffic: PathBuf::from("/nonexistent"), address: Ipv4Addr::LOCALHOST }, told)
    }

    pub(crate) fn answer(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn requests_use_the_control_port() {
        let dir = tempfile::tempdir().unwrap();
        let none = "HTTP/1.1 204 No Content\r\n\r\n";
        let ready = answer(r#"{"ready":true}"#);
        let busy = answer(r#"{"commands":2}"#);
        let old = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        let (link, mut told) = guest(&dir, &[none, &busy, &ready, none, &answer("[]"), none, old]);
        assert!(link.is_healthy().await);
        assert_eq!(link.activity().await.unwrap().commands, 2);
        assert!(link.readiness(Duration::from_secs(7)).await.unwrap().ready);
        link.stop().await.unwrap();
        assert_eq!(link.journal(10).await.unwrap(), "[]");
        link.trust(&Trust::default()).await.unwrap();
        assert_eq!(link.trust(&Trust::default()).await.unwrap_err().kind(), io::ErrorKind::Unsupported);
        let posts = ["POST /trust", "POST /trust"];
        let gets = ["GET /health", "GET /activity", "GET /ready?seconds=7", "POST /stop", "GET /journal"];
        for line in gets.into_iter().chain(posts) {
            assert_eq!(told.recv().await.unwrap(), format!("{line} HTTP/1.1"));
        }
    }

    #[tokio::test]
    async fn responses_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let informational = "HTTP/1.1 100 Continue\r\n\r\n";
        let (few, many) = (informational.repeat(3) + &answer("[]"), informational.repeat(5000) + &answer("[]"));
        let too_large = answer("x".repeat(100).as_str());
        let (link, _told) = guest(&dir, &[&too_large, "nonsense\r\n\r\n", &answer("{}"), &few, &many]);
        assert!(link.journal(99).await.is_err());
        assert!(!link.is_healthy().await);
        assert!(link.activity().await.is_err());
        assert_eq!(link.journal(10).await.unwrap(), "[]");
        let error = link.journal(10).await.unwrap_err();
        assert_eq!(error.to_string(), "it sent more than 64 informational (1xx) responses");
    }
}
