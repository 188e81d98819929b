//! The connection to an object store: HTTP/1.1 with our own TLS settings. A request ends with an error when nothing moves for a while,
//! however long it takes as a whole; answers are limited in size.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, Sleep};

use super::download::PIECE;
use crate::Error;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The largest answer that we ask for is a piece of an archive; lists and errors are far smaller.
const LARGEST: u64 = 2 * PIECE;

/// Makes clients.
#[derive(Debug)]
pub(super) struct Connector {
    client: Client,
}

impl Connector {
    /// `stall`: after how long without a byte a request is given up.
    pub(super) fn new(secure: bool, stall: Duration) -> Result<Self, Error> {
        let mut tcp = TcpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT.min(stall)));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.enforce_http(false);
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls(secure)?);
        let builder = if secure { builder.https_only() } else { builder.https_or_http() };
        let connector = builder.enable_http1().wrap_connector(tcp);
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client: Client { client, stall } })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.client.clone()))
    }
}

/// The system's authorities are believed (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others in their place).
fn tls(needed: bool) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if needed && roots.is_empty() {
        let hint =
            "no certificate authorities were found: install ca-certificates, or name a PEM file in SSL_CERT_FILE";
        return Err(Error::Unsupported(hint.to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Unsupported(format!("TLS cannot be set up: {e}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[derive(Debug, Clone)]
struct Client {
    client: legacy::Client<HttpsConnector<TcpConnector>, Outgoing>,
    stall: Duration,
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let moved = Moved::now();
        let request = request.map(|body| Outgoing { body, moved: moved.clone() });
        let response = tokio::select! {
            response = self.client.request(request) => response.map_err(request_error)?,
            () = moved.long_ago(self.stall) => return Err(stalled(self.stall)),
        };
        let timer = Box::pin(tokio::time::sleep(self.stall));
        Ok(response.map(|body| HttpResponseBody::new(Arriving { body, timer, stall: self.stall, taken: 0 })))
    }
}

/// When a byte last moved.
#[derive(Debug, Clone)]
struct Moved(Arc<Mutex<Instant>>);

impl Moved {
    fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    async fn long_ago(&self, stall: Duration) {
        loop {
            let end = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + stall;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

/// The body of a request, which notes when the connection takes more of it.
#[derive(Debug)]
struct Outgoing {
    body: HttpRequestBody,
    moved: Moved,
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        self.moved.touch();
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer.
#[derive(Debug)]
struct Arriving {
    body: Incoming,
    timer: Pin<Box<Sleep>>,
    stall: Duration,
    taken: u64,
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.timer.as_mut().poll(cx));
            return Poll::Ready(Some(Err(stalled(self.stall))));
        };
        let end = Instant::now() + self.stall;
        self.timer.as_mut().reset(end);
        let Some(frame) = frame else { return Poll::Ready(None) };
        let frame = frame.map_err(|e| HttpError::new(HttpErrorKind::Interrupted, e));
        if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
            self.taken += data.len() as u64;
            if self.taken > LARGEST {
                let error = std::io::Error::other("the answer is larger than anything we ask for");
                return Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Decode, error))));
            }
        }
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // What is promised is believed only so far.
        let mut hint = self.body.size_hint();
        if hint.lower() > LARGEST {
            hint = SizeHint::new();
        }
        hint
    }
}

fn stalled(stall: Duration) -> HttpError {
    let error =
        std::io::Error::new(std::io::ErrorKind::TimedOut, format!("nothing moved for {} s", stall.as_secs_f32()));
    HttpError::new(HttpErrorKind::Timeout, error)
}

/// Says which kind of error it is: that decides on trying again.
fn request_error(error: legacy::Error) -> HttpError {
    let mut kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Interrupted };
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        if inner.downcast_ref::<hyper::Error>().is_some_and(|e| e.is_parse() || e.is_user()) {
            kind = HttpErrorKind::Decode;
        }
        cause = inner.source();
    }
    HttpError::new(kind, error)
}
