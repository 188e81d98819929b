//! Protects against request smuggling: sits between a client's socket and hyper, parses HTTP/1 framing itself, and rejects
//! ambiguous requests.
//!
//! hyper accepts some requests that other parsers delimit differently (both `Content-Length` and `Transfer-Encoding`,
//! bare LF), and the request it hands out no longer shows it. Here the first ambiguity ends the connection: a rejected
//! head is replaced by a placeholder request, which the service answers with the rejection after all earlier responses.
//! Nothing after it is passed on.

mod chunks;
mod framing;
mod head;
mod rejection;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::io::poll_read_buf;

use self::framing::{Framing, Remainder};
pub(super) use self::head::{asks_upgrade, names_upgrade};
pub(super) use self::rejection::Rejection;
use crate::connection::Connection;

/// Path of the placeholder for a rejected request. It has a meaning only on a connection with a rejection.
pub(super) const PLACEHOLDER_PATH: &str = "/.cabana/refused";
const PLACEHOLDER: &[u8] = b"GET /.cabana/refused HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
/// Bytes buffered for an upgrade that is not decided yet.
const MAX_EARLY: usize = 64 * 1024;
/// How long a client with an early response may continue to send before its connection is closed.
const LINGER: Duration = Duration::from_secs(2);
/// Reads discarded per poll.
const DISCARDS: usize = 16;

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// From the first byte of a head to its last.
    pub(super) head: Duration,
    /// Between requests.
    pub(super) idle: Duration,
}

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1, or nothing at all.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// A client's byte stream with checked framing.
pub(super) struct Guard<S> {
    stream: S,
    framing: Framing,
    /// Bytes that were read and not passed on.
    buffer: BytesMut,
    /// How many of them may be passed on.
    valid: usize,
    connection: Arc<Connection>,
    timeouts: Timeouts,
    /// Since when it waits for a head, and whether the head has begun.
    waiting: Option<(Instant, bool)>,
    timer: Option<Pin<Box<Sleep>>>,
    rejected: bool,
    lingering: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guard<S> {
    pub(super) fn new(stream: S, connection: Arc<Connection>, timeouts: Timeouts) -> Self {
        Self {
            stream,
            framing: Framing::new(),
            buffer: BytesMut::new(),
            valid: 0,
            connection,
            timeouts,
            waiting: None,
            timer: None,
            rejected: false,
            lingering: false,
        }
    }

    /// Reads until the client's protocol is known.
    pub(super) async fn protocol(&mut self) -> io::Result<Protocol> {
        std::future::poll_fn(|cx| {
            loop {
                if self.buffer.is_empty() {
                    if !ready!(self.poll_more(cx))? {
                        return Poll::Ready(Ok(Protocol::Http1));
                    }
                    continue;
                }
                self.check();
                if self.framing.is_raw() {
                    return Poll::Ready(Ok(Protocol::Http2));
                }
                if !self.framing.is_undecided() {
                    return Poll::Ready(Ok(Protocol::Http1));
                }
                if !ready!(self.poll_more(cx))? {
                    return Poll::Ready(Ok(Protocol::Http1));
                }
            }
        })
        .await
    }

    /// Checks the buffer. `false` if the current body is malformed.
    fn check(&mut self) -> bool {
        let (valid, rest) = self.framing.follow(&self.buffer);
        self.valid = valid;
        if valid > 0 {
            self.waiting = None;
            // What follows the valid bytes is checked again when they were passed on.
            return true;
        }
        match rest {
            Remainder::None | Remainder::Wait => true,
            Remainder::Reject(rejection) => {
                self.reject(rejection);
                true
            }
            Remainder::BrokenBody(rejection) => {
                tracing::debug!(peer = %self.connection.peer.address, reason = rejection.message, "malformed request body");
                false
            }
        }
    }

    fn reject(&mut self, rejection: Rejection) {
        tracing::debug!(peer = %self.connection.peer.address, reason = rejection.message, "rejected request");
        self.connection.reject(rejection);
        self.rejected = true;
        self.buffer.clear();
        self.buffer.extend_from_slice(PLACEHOLDER);
        self.valid = PLACEHOLDER.len();
    }

    /// Reads more into the buffer; `false` at the end of the stream or after a timeout.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.buffer.reserve(4096);
        match poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.buffer) {
            Poll::Ready(read) => Poll::Ready(Ok(read? > 0)),
            Poll::Pending => {
                ready!(self.poll_timeout(cx));
                if self.buffer.is_empty() {
                    return Poll::Ready(Ok(false));
                }
                self.reject(Rejection::HEAD_TOO_SLOW);
                Poll::Ready(Ok(true))
            }
        }
    }

    /// Resolves when a head did not arrive in time.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.framing.between_messages() {
            return Poll::Pending;
        }
        let begun = !self.buffer.is_empty();
        let mut since = match self.waiting {
            Some((since, same)) if same == begun => since,
            _ => Instant::now(),
        };
        let allowed = if begun { self.timeouts.head } else { self.timeouts.idle };
        loop {
            self.waiting = Some((since, begun));
            let deadline = since + allowed;
            // The timer is reset only if it must fire earlier or has fired, not on every request.
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if timer.deadline() > deadline {
                timer.as_mut().reset(deadline);
            }
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() < deadline {
                timer.as_mut().reset(deadline);
                continue;
            }
            match self.connection.idle_since() {
                _ if begun => return Poll::Ready(()),
                // A connection with a silent response stream is not idle.
                None => since = Instant::now(),
                Some(quiet) if quiet > since => since = quiet,
                Some(_) => return Poll::Ready(()),
            }
        }
    }

    /// Reads and discards; ready at the end of the stream.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for _ in 0..DISCARDS {
            self.buffer.clear();
            self.buffer.reserve(4096);
            if ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.buffer))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        self.buffer.clear();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads into hyper's buffer without a copy, and takes back what is not valid.
    fn poll_direct(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let before = buf.filled().len();
        if Pin::new(&mut self.stream).poll_read(cx, buf)?.is_pending() {
            ready!(self.poll_timeout(cx));
            return Poll::Ready(Ok(0));
        }
        let read = buf.filled().len() - before;
        let (valid, _) = self.framing.follow(&buf.filled()[before..]);
        if valid < read {
            self.buffer.extend_from_slice(&buf.filled()[before + valid..]);
            buf.set_filled(before + valid);
        }
        if valid > 0 {
            self.waiting = None;
        }
        Poll::Ready(Ok(read))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guard<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.valid > 0 {
                let n = this.valid.min(buf.remaining());
                buf.put_slice(&this.buffer[..n]);
                this.buffer.advance(n);
                this.valid -= n;
                if this.buffer.is_empty() {
                    // An idle connection holds no memory.
                    this.buffer = BytesMut::new();
                }
                return Poll::Ready(Ok(()));
            }
            if this.rejected {
                return this.poll_discard(cx);
            }
            if this.framing.awaits_upgrade() {
                match this.connection.poll_upgrade(cx) {
                    Poll::Ready(true) => this.framing.accepted(),
                    Poll::Ready(false) => this.framing.declined(),
                    Poll::Pending if this.buffer.len() >= MAX_EARLY => return Poll::Pending,
                    Poll::Pending => {
                        if !ready!(this.poll_more(cx))? {
                            return Poll::Ready(Ok(()));
                        }
                        continue;
                    }
                }
            }
            if this.buffer.is_empty() {
                let before = buf.filled().len();
                let read = ready!(this.poll_direct(cx, buf))?;
                if read == 0 || buf.filled().len() > before {
                    return Poll::Ready(Ok(()));
                }
            }
            if !this.check() {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "malformed chunked body")));
            }
            if this.valid == 0 && !this.framing.awaits_upgrade() && !ready!(this.poll_more(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    /// Closes the write side. A client that is still sending gets time to read the response: closing a socket with
    /// unread bytes resets it, and the response may be lost with it (see `early_reply`).
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.lingering {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            if !this.rejected && !this.framing.within_body() {
                return Poll::Ready(Ok(()));
            }
            this.lingering = true;
            this.timer = Some(Box::pin(sleep_until(Instant::now() + LINGER)));
        }
        if let Some(timer) = &mut this.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Ok(()));
        }
        // Errors while lingering do not matter: the connection is closed.
        this.poll_discard(cx).map(|_| Ok(()))
    }
}
