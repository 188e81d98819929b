//! HTTP/1.1 to a server that is not trusted, over a stream: the heads of its responses are bounded here, bodies and time by
//! the caller.

#![forbid(unsafe_code)]

mod head;

use std::io;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

pub use head::{Bounded, Head, HeadError};

/// The largest head of a response; also the read buffer.
const MAX_BUFFER: usize = 128 * 1024;
const MAX_HEADERS: usize = 200;

/// Sends requests over one connection.
#[derive(Debug)]
pub struct Sender<B> {
    inner: SendRequest<B>,
    head: Head,
}

/// A request that got no response.
#[derive(Debug)]
pub struct Unanswered<B> {
    /// The request, if nothing of it was sent.
    pub unsent: Option<Request<B>>,
    /// What was wrong with the head of the response, if one came.
    pub head: Option<HeadError>,
    pub error: hyper::Error,
}

impl<B> From<Unanswered<B>> for io::Error {
    fn from(unanswered: Unanswered<B>) -> Self {
        match unanswered.head {
            Some(error) => Self::new(io::ErrorKind::InvalidData, error),
            None => Self::other(unanswered.error),
        }
    }
}

impl<B: Body + 'static> Sender<B> {
    /// Whether a request can be sent now.
    pub fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Waits until a request can be sent; an error if the connection has ended.
    pub async fn ready(&mut self) -> Result<(), hyper::Error> {
        self.inner.ready().await
    }

    /// Sends a request and returns the response when its head has arrived.
    pub async fn send(&mut self, mut request: Request<B>) -> Result<Response<Incoming>, Unanswered<B>> {
        let head = self.head.clone();
        hyper::ext::on_informational(&mut request, move |_| head.informational());
        self.head.wait();
        let sent = self.inner.try_send_request(request).await;
        let failed = self.head.done();
        sent.map_err(|mut failure| {
            let unsent = failure.take_message();
            let error = failure.into_error();
            let head = failed.or_else(|| error.is_parse_too_large().then_some(HeadError::TooLarge));
            Unanswered { unsent, head, error }
        })
    }
}

/// Starts HTTP/1.1 on a stream that `head` made. The caller drives the connection. Names of headers are sent as they were
/// received with HTTP/1.1, others with capitals (`Content-Type`): some servers know only these.
pub async fn handshake<T, B>(io: Bounded<T>, head: Head) -> io::Result<(Sender<B>, Connection<TokioIo<Bounded<T>>, B>)>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut builder = Builder::new();
    builder.max_buf_size(MAX_BUFFER).max_headers(MAX_HEADERS);
    builder.preserve_header_case(true).title_case_headers(true);
    handshake_with(&builder, io, head).await
}

/// The same with other settings.
pub async fn handshake_with<T, B>(
    builder: &Builder,
    io: Bounded<T>,
    head: Head,
) -> io::Result<(Sender<B>, Connection<TokioIo<Bounded<T>>, B>)>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (inner, connection) = builder.handshake(TokioIo::new(io)).await.map_err(io::Error::other)?;
    Ok((Sender { inner, head }, connection))
}
