//! HTTP/1.1 over a link. Responses are untrusted: their heads are bounded here, bodies and time by the caller.

use std::io;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;

use crate::{GuestLink, Port};

/// The largest head of a response; also the read buffer.
const MAX_BUFFER: usize = 128 * 1024;
const MAX_HEADERS: usize = 200;

/// Starts HTTP/1.1 on a stream. The caller drives the connection.
pub async fn handshake<T, B>(io: T) -> io::Result<(SendRequest<B>, Connection<T, B>)>
where
    T: Read + Write + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut builder = Builder::new();
    builder.max_buf_size(MAX_BUFFER).max_headers(MAX_HEADERS);
    builder.handshake(io).await.map_err(io::Error::other)
}

impl GuestLink {
    /// Sends one request on its own connection, which ends when the response's body was read or dropped, or when the
    /// guest ends.
    pub async fn request<B>(&self, port: Port, request: Request<B>) -> io::Result<Response<Incoming>>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut sender, connection) = handshake(TokioIo::new(self.connect(port).await?)).await?;
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(io::Error::other)
    }
}
