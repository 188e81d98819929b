//! Bounds what the other end may send before the head of its response is complete. hyper skips informational (1xx)
//! responses without end, in a loop that keeps a thread busy, and waits for the rest of a head for ever.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Informational responses before the final one. Some servers send one every few seconds while they work.
const MAX_INFORMATIONAL: u32 = 64;
/// Bytes before the final head is complete. Twice hyper's buffer and more: what was read may include the beginning of
/// the body.
const MAX_BYTES: usize = 512 * 1024;
/// From the first byte of a head to its last.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Why the head of a response was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("it sent more than {MAX_INFORMATIONAL} informational (1xx) responses")]
    Informational,
    #[error("the head of its response is too large")]
    TooLarge,
    #[error("the head of its response was not complete {} s after its first byte", MAX_TIME.as_secs())]
    TooSlow,
}

/// The head that a connection waits for. Shared by the sender of requests and the streams below.
#[derive(Debug, Clone, Default)]
pub struct Head(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// A request was sent and its response has not come.
    waiting: bool,
    bytes: usize,
    informational: u32,
    /// When the head that is being read began.
    begun: Option<Instant>,
    error: Option<HeadError>,
}

impl Head {
    /// Bounds a stream that carries HTTP.
    pub fn plain<S>(&self, stream: S) -> Bounded<S> {
        Bounded { stream, head: self.clone(), counts: true, times: true, timer: None }
    }

    /// Bounds a stream below TLS by bytes: records without content reach nobody above.
    pub fn encrypted<S>(&self, stream: S) -> Bounded<S> {
        Bounded { stream, head: self.clone(), counts: true, times: false, timer: None }
    }

    /// Bounds the stream above TLS by time: a record below may belong to no head.
    pub fn decrypted<S>(&self, stream: S) -> Bounded<S> {
        Bounded { stream, head: self.clone(), counts: false, times: true, timer: None }
    }

    /// A request is about to be sent.
    pub(crate) fn wait(&self) {
        *self.state() = State { waiting: true, ..State::default() };
    }

    /// One more informational response.
    pub(crate) fn informational(&self) {
        let mut state = self.state();
        state.informational += 1;
        state.begun = None;
        if state.informational > MAX_INFORMATIONAL {
            state.error = Some(HeadError::Informational);
        }
    }

    /// The final head has come, or nothing will.
    pub(crate) fn done(&self) -> Option<HeadError> {
        let mut state = self.state();
        state.waiting = false;
        state.error
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fail(&mut self, error: HeadError) -> io::Error {
        self.error = Some(error);
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// A stream whose reads fail when a head exceeds its bounds.
#[derive(Debug)]
pub struct Bounded<S> {
    stream: S,
    head: Head,
    counts: bool,
    times: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Bounded<S> {
    /// Fails if the bounds were exceeded by what was read before.
    fn check(&self) -> io::Result<()> {
        let mut state = self.head.state();
        match state.error {
            Some(error) => Err(state.fail(error)),
            None if state.waiting && state.bytes >= MAX_BYTES => Err(state.fail(HeadError::TooLarge)),
            None => Ok(()),
        }
    }

    fn count(&mut self, bytes: usize) {
        self.timer = None;
        let mut state = self.head.state();
        if !state.waiting || bytes == 0 {
            return;
        }
        if self.counts {
            state.bytes += bytes;
        }
        if self.times && state.begun.is_none() {
            state.begun = Some(Instant::now());
        }
    }

    /// Resolves when the head that has begun took too long.
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let begun = {
            let state = self.head.state();
            state.begun.filter(|_| self.times && state.waiting)
        };
        let Some(begun) = begun else {
            self.timer = None;
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(begun + MAX_TIME)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(self.head.state().fail(HeadError::TooSlow))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.check()?;
        let before = buf.filled().len();
        if Pin::new(&mut this.stream).poll_read(cx, buf)?.is_pending() {
            return this.poll_slow(cx).map(Err);
        }
        this.count(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
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

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
