//! A stream to a sandbox whose refusal to read more is not the end. A server that answers early (wrong token, disk full) closes
//! without reading the rest of a large body; hyper would report the failed write and lose the answer that is already here.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Writing stops silently when the other side is closed, and fails only once there is nothing left to read.
pub(super) struct Patient<S> {
    stream: S,
    /// The other side takes no more.
    deaf: bool,
    /// There is nothing more to read.
    ended: bool,
    writer: Option<Waker>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, deaf: false, ended: false, writer: None }
    }

    fn written(&mut self, cx: &Context<'_>, result: io::Result<usize>) -> Poll<io::Result<usize>> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match result {
            Err(error) if !self.ended && matches!(error.kind(), BrokenPipe | ConnectionReset) => {
                self.deaf = true;
                self.wait(cx)
            }
            result => Poll::Ready(result),
        }
    }

    fn wait(&mut self, cx: &Context<'_>) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.writer = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        if result.is_err() || buf.filled().len() == before {
            self.ended = true;
            if let Some(writer) = self.writer.take() {
                writer.wake();
            }
        }
        Poll::Ready(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.deaf {
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
        if self.deaf {
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
