//! A request that is being answered: while it or the body of its response lives, the connection is not idle.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::connection::Connection;

/// Keeps the connection from being idle until it is dropped.
pub(crate) struct ClientRequest {
    pub(crate) connection: Arc<Connection>,
    number: u64,
}

impl ClientRequest {
    /// `None` if too many requests are in flight.
    pub(crate) fn new(connection: Arc<Connection>) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        connection.begin();
        let accepted = connection.place.begin_request();
        let request = Self { connection, number: NEXT.fetch_add(1, Ordering::Relaxed) };
        accepted.then_some(request)
    }
}

impl Drop for ClientRequest {
    fn drop(&mut self) {
        self.connection.set_unread(self.number, false);
        self.connection.place.end_request();
        self.connection.end();
    }
}

/// The body of a response; while it lives the connection is not idle.
pub(crate) struct ResponseBody {
    pub(crate) body: Body,
    pub(crate) in_flight: ClientRequest,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // hyper asks for the next frame when there is room for it, that is when the client has read.
        let ClientRequest { connection, number } = &self.in_flight;
        connection.set_unread(*number, matches!(frame, Poll::Ready(Some(Ok(_)))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
