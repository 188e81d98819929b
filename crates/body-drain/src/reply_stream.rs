//! Early responses on the other side: as a client of a server that responds and closes without reading the rest of the request.
//! hyper's client reports the failed write although the response is in the socket's buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream to a server on which a write blocks once the peer is closed, and fails only when there is nothing left to read.
#[derive(Debug)]
pub struct ReplyStream<S> {
    stream: S,
    /// A write failed: the peer reads no more.
    write_closed: bool,
    /// There is nothing more to read.
    read_ended: bool,
    writer: Option<Waker>,
}

impl<S> ReplyStream<S> {
    /// Wraps a stream.
    pub fn new(stream: S) -> Self {
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
