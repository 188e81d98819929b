//! Byte streams: any of them behind one type, one that begins with bytes that were already read, and one that tells when
//! it last carried something.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A byte stream in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// Any stream.
pub(crate) type AnyStream = Box<dyn Stream>;

/// Bytes carried at once in one direction.
const CHUNK: usize = 16 * 1024;

/// How long a client may continue to send after its connection was closed.
const LINGER: Duration = Duration::from_secs(2);

/// A stream that begins with bytes that were already read from it.
pub(crate) struct Begun<S> {
    pub(crate) first: Bytes,
    pub(crate) stream: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let length = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first[..length]);
        self.first.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// When a connection last carried something.
#[derive(Debug, Clone)]
pub(crate) struct Activity {
    start: Instant,
    last: Arc<AtomicU64>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), last: Arc::default() }
    }

    fn note(&self) {
        let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(passed, Ordering::Relaxed);
    }

    /// Resolves when nothing was carried for so long.
    pub(crate) async fn idle(&self, limit: Duration) {
        loop {
            let deadline = self.start + Duration::from_millis(self.last.load(Ordering::Relaxed)) + limit;
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

/// A stream that notes its activity.
pub(crate) struct Watched<S> {
    pub(crate) stream: S,
    pub(crate) activity: Activity,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        self.activity.note();
        Poll::Ready(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        self.activity.note();
        Poll::Ready(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A stream that is closed in steps: its own side first, and the rest when the other side has ended or some time has
/// passed. Closing with unread bytes would reset the connection, and the last response may be lost with it.
pub(crate) struct Lingering<S> {
    stream: S,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Lingering<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, deadline: None }
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

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.deadline.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + LINGER)));
        let mut space = [0; 4096];
        loop {
            if deadline.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buf = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                // Errors do not matter any more.
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// Carries bytes both ways, and each side's end to the other, until both have ended, one fails, or both are silent for
/// too long.
pub(crate) async fn join(a: impl Stream, b: impl Stream, idle: Duration) {
    let activity = Activity::new();
    let mut a = Watched { stream: a, activity: activity.clone() };
    let mut b = Watched { stream: b, activity: activity.clone() };
    tokio::select! {
        ended = tokio::io::copy_bidirectional_with_sizes(&mut a, &mut b, CHUNK, CHUNK) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke");
            }
        }
        () = activity.idle(idle) => tracing::debug!("a connection was silent for too long"),
    }
}
