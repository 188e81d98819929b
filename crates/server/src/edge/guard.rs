//! Stands between a client's socket and hyper, follows HTTP/1 framing on its own, and lets nothing ambiguous in.
//!
//! hyper accepts some requests that others would cut differently (both `Content-Length` and `Transfer-Encoding`, bare LF) and
//! hides the evidence. Here the first doubt ends the connection: a refused head is replaced by a stand-in request, which the
//! service answers with the refusal after all earlier answers, and nothing after it is passed on.

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

use self::framing::{Framing, Rest};
pub(super) use self::head::{asks_upgrade, names_upgrade};
pub(super) use self::rejection::Rejection;
use super::link::Link;

/// Path of the stand-in for a refused request. It means something only on a connection that has a refusal.
pub(super) const STAND_IN_PATH: &str = "/.cabana/refused";
const STAND_IN: &[u8] = b"GET /.cabana/refused HTTP/1.1\r\nhost: refused\r\nconnection: close\r\n\r\n";
/// Bytes kept for a protocol that was not accepted yet.
const MAX_EARLY: usize = 64 * 1024;
/// How long a client that was answered early may go on sending before its connection is cut.
const LINGER: Duration = Duration::from_secs(2);
/// Reads thrown away in one turn.
const DISCARDS: usize = 16;

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// From a head's first byte to its last.
    pub(super) head: Duration,
    /// Between requests.
    pub(super) idle: Duration,
}

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1, or nothing at all.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// A client's byte stream, watched.
pub(super) struct Guard<S> {
    stream: S,
    framing: Framing,
    /// Bytes that were read and not handed out.
    held: BytesMut,
    /// How many of them may be.
    good: usize,
    link: Arc<Link>,
    patience: Patience,
    /// Since when a head is waited for, and whether it has begun.
    waiting: Option<(Instant, bool)>,
    alarm: Option<Pin<Box<Sleep>>>,
    refused: bool,
    lingering: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guard<S> {
    pub(super) fn new(stream: S, link: Arc<Link>, patience: Patience) -> Self {
        Self {
            stream,
            framing: Framing::new(),
            held: BytesMut::new(),
            good: 0,
            link,
            patience,
            waiting: None,
            alarm: None,
            refused: false,
            lingering: false,
        }
    }

    /// Reads until it is clear what the client speaks.
    pub(super) async fn protocol(&mut self) -> io::Result<Protocol> {
        std::future::poll_fn(|cx| {
            loop {
                if self.held.is_empty() {
                    if !ready!(self.poll_more(cx))? {
                        return Poll::Ready(Ok(Protocol::Http1));
                    }
                    continue;
                }
                self.judge();
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

    /// Judges what is held. `false` where the body under way is broken.
    fn judge(&mut self) -> bool {
        let (good, rest) = self.framing.follow(&self.held);
        self.good = good;
        if good > 0 {
            self.waiting = None;
            // What comes after the good bytes is judged again when they are gone.
            return true;
        }
        match rest {
            Rest::Nothing | Rest::Keep => true,
            Rest::Refuse(rejection) => {
                self.refuse(rejection);
                true
            }
            Rest::Break(rejection) => {
                tracing::debug!(peer = %self.link.peer.address, reason = rejection.message, "broken request body");
                false
            }
        }
    }

    fn refuse(&mut self, rejection: Rejection) {
        tracing::debug!(peer = %self.link.peer.address, reason = rejection.message, "refused request");
        self.link.reject(rejection);
        self.refused = true;
        self.held.clear();
        self.held.extend_from_slice(STAND_IN);
        self.good = STAND_IN.len();
    }

    /// Reads more into what is held; `false` at the end of the stream, or when patience is over.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.held.reserve(4096);
        match poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.held) {
            Poll::Ready(read) => Poll::Ready(Ok(read? > 0)),
            Poll::Pending => {
                ready!(self.poll_patience(cx));
                if self.held.is_empty() {
                    return Poll::Ready(Ok(false));
                }
                self.refuse(Rejection::HEAD_TOO_SLOW);
                Poll::Ready(Ok(true))
            }
        }
    }

    /// Resolves when a head has been waited for too long.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.framing.between_messages() {
            return Poll::Pending;
        }
        let begun = !self.held.is_empty();
        let mut since = match self.waiting {
            Some((since, same)) if same == begun => since,
            _ => Instant::now(),
        };
        let allowed = if begun { self.patience.head } else { self.patience.idle };
        loop {
            self.waiting = Some((since, begun));
            let deadline = since + allowed;
            // The alarm is moved only when it must ring earlier or has rung, not on every request.
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if alarm.deadline() > deadline {
                alarm.as_mut().reset(deadline);
            }
            ready!(alarm.as_mut().poll(cx));
            if alarm.deadline() < deadline {
                alarm.as_mut().reset(deadline);
                continue;
            }
            match self.link.quiet_since() {
                _ if begun => return Poll::Ready(()),
                // A stream that says nothing for long is not an idle connection.
                None => since = Instant::now(),
                Some(quiet) if quiet > since => since = quiet,
                Some(_) => return Poll::Ready(()),
            }
        }
    }

    /// Reads and throws away; ready at the end of the stream.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for _ in 0..DISCARDS {
            self.held.clear();
            self.held.reserve(4096);
            if ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.held))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        self.held.clear();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads straight into hyper's buffer, and takes back what is not good.
    fn poll_direct(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let before = buf.filled().len();
        if Pin::new(&mut self.stream).poll_read(cx, buf)?.is_pending() {
            ready!(self.poll_patience(cx));
            return Poll::Ready(Ok(0));
        }
        let read = buf.filled().len() - before;
        let (good, _) = self.framing.follow(&buf.filled()[before..]);
        if good < read {
            self.held.extend_from_slice(&buf.filled()[before + good..]);
            buf.set_filled(before + good);
        }
        if good > 0 {
            self.waiting = None;
        }
        Poll::Ready(Ok(read))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guard<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.good > 0 {
                let n = this.good.min(buf.remaining());
                buf.put_slice(&this.held[..n]);
                this.held.advance(n);
                this.good -= n;
                if this.held.is_empty() {
                    // An idle connection keeps no buffer.
                    this.held = BytesMut::new();
                }
                return Poll::Ready(Ok(()));
            }
            if this.refused {
                return this.poll_discard(cx);
            }
            if this.framing.awaits() {
                match this.link.poll_decision(cx) {
                    Poll::Ready(true) => this.framing.accepted(),
                    Poll::Ready(false) => this.framing.declined(),
                    Poll::Pending if this.held.len() >= MAX_EARLY => return Poll::Pending,
                    Poll::Pending => {
                        if !ready!(this.poll_more(cx))? {
                            return Poll::Ready(Ok(()));
                        }
                        continue;
                    }
                }
            }
            if this.held.is_empty() {
                let before = buf.filled().len();
                let read = ready!(this.poll_direct(cx, buf))?;
                if read == 0 || buf.filled().len() > before {
                    return Poll::Ready(Ok(()));
                }
            }
            if !this.judge() {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "malformed chunked body")));
            }
            if this.good == 0 && !this.framing.awaits() && !ready!(this.poll_more(cx))? {
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

    /// Closes our direction. A client that is still sending gets a moment to read the answer: closing a socket with unread bytes
    /// resets it, and the answer could be lost with it.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.lingering {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            if !this.refused && !this.framing.within_body() {
                return Poll::Ready(Ok(()));
            }
            this.lingering = true;
            this.alarm = Some(Box::pin(sleep_until(Instant::now() + LINGER)));
        }
        if let Some(alarm) = &mut this.alarm
            && alarm.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Ok(()));
        }
        // Whatever goes wrong while lingering, the connection is over.
        this.poll_discard(cx).map(|_| Ok(()))
    }
}
