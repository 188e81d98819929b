//! Responses that come before their request was read to its end (wrong token, disk full, route not found), and responses
//! that are cut short.
//!
//! HTTP/1 allows a server to respond early and to close. Four places need care so that the response reaches the client,
//! each because hyper alone would lose it or leave the connection in doubt:
//!
//! 1. *Sandbox → edge*: a server that responds early closes without reading the rest of a large body. hyper's client
//!    then reports the failed write (EPIPE, ECONNRESET) although the response is in the socket's buffer. [`ReplyStream`]
//!    delays that error until the response was read.
//! 2. *Edge or guest → client, connection stays open*: hyper's server closes a connection whose request body was not
//!    read, without `connection: close`, and the client's next request on it is lost. `cabana_body_drain` reads a
//!    bounded rest of the body, or adds the header. [`PeerStoppedReading`] on a response says that the sandbox will not
//!    read the rest, so there is nothing to wait for.
//! 3. *Edge or guest → client, connection closes*: closing a socket with unread bytes resets it, and the response may
//!    be lost with it. The write side is closed first and the rest read for a bounded time: `guard`'s `poll_shutdown`,
//!    `tls::refuse_plain`, and the guest's `linger`.
//! 4. *A sandbox that ends in the middle of a response*: hyper polls the body only while the client reads, and an
//!    orderly end would make a cut stream look complete. [`CutWhenGone`] makes the listener drop the connection at
//!    once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// On a response: the peer that sent it reads no more of the request.
#[derive(Clone, Copy)]
pub(crate) struct PeerStoppedReading;

/// On a response: its connection must be cut if this fires before the body was sent.
#[derive(Clone)]
pub(crate) struct CutWhenGone(pub(crate) CancellationToken);

/// A stream to a sandbox on which a write blocks once the peer is closed, and fails only when there is nothing left to read.
pub(crate) struct ReplyStream<S> {
    stream: S,
    /// A write failed: the peer reads no more.
    write_closed: bool,
    /// There is nothing more to read.
    read_ended: bool,
    writer: Option<Waker>,
}

impl<S> ReplyStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, write_closed: false, read_ended: false, writer: None }
    }

    fn written(&mut self, cx: &Context<'_>, result: io::Result<usize>) -> Poll<io::Result<usize>> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match result {
            Err(error) if !self.read_ended && matches!(error.kind(), BrokenPipe | ConnectionReset) => {
                self.write_closed = true;
                self.wait(cx)
            }
            result => Poll::Ready(result),
        }
    }

    fn wait(&mut self, cx: &Context<'_>) -> Poll<io::Result<usize>> {
        if self.read_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.writer = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReplyStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        if result.is_err() || buf.filled().len() == before {
            self.read_ended = true;
            if let Some(writer) = self.writer.take() {
                writer.wake();
            }
        }
        Poll::Ready(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReplyStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.write_closed {
            return self.wait(cx);
        }
        let result = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        self.written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.write_closed {
            return self.wait(cx);
        }
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs));
        self.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
