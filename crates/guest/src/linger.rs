//! Lingering close: keeps a stream open while the client still sends. Closing a socket with unread bytes resets the
//! connection, and the response could be lost.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may keep sending after an early response.
const LINGER: Duration = Duration::from_secs(2);
/// Size of a discarding read, and how many of them per poll.
const DISCARD_SIZE: usize = 4096;
const READS_PER_POLL: usize = 64;

/// A client's stream.
pub(crate) struct Lingering<S> {
    stream: S,
    unread: Arc<AtomicBool>,
    /// Set when the write side is closed: how long to keep reading.
    closed: Option<Pin<Box<Sleep>>>,
}

impl<S> Lingering<S> {
    /// A stream that closes immediately unless the flag from `unread` is set.
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, unread: Arc::default(), closed: None }
    }

    /// Flag to set when a request was not read to its end.
    pub(crate) fn unread(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.unread)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.closed.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            if !this.unread.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        let end = this.closed.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        for _ in 0..READS_PER_POLL {
            let mut bytes = [0; DISCARD_SIZE];
            let mut buffer = ReadBuf::new(&mut bytes);
            // The connection is over, whatever the error.
            if ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer)).is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
