//! What the parts of one client connection tell each other: the guard that reads its bytes, the service that answers its requests,
//! and the task that drives it.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::guard::Rejection;

/// Who is at the other end of a connection; every request carries it as an extension.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The client's address.
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
}

/// One client connection.
pub(super) struct Link {
    /// Who is at the other end.
    pub(super) peer: Peer,
    /// Cancelled when the connection must end now.
    pub(super) closing: CancellationToken,
    /// A place among the connections that may be open; tunnels keep it by keeping the link.
    _place: OwnedSemaphorePermit,
    state: Mutex<State>,
}

struct State {
    /// Requests whose answers are not complete.
    busy: usize,
    /// When the last answer was complete.
    quiet: Instant,
    rejection: Option<Rejection>,
    /// Whether the request for another protocol was accepted.
    accepted: Option<bool>,
    reader: Option<Waker>,
    /// Resolves when the sandbox that is streaming an answer ends.
    tether: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl State {
    fn new() -> Self {
        Self { busy: 0, quiet: Instant::now(), rejection: None, accepted: None, reader: None, tether: None }
    }
}

impl Link {
    pub(super) fn new(peer: Peer, closing: CancellationToken, place: OwnedSemaphorePermit) -> Self {
        Self { peer, closing, _place: place, state: Mutex::new(State::new()) }
    }

    /// A request came in.
    pub(super) fn begin(&self) {
        self.state().busy += 1;
    }

    /// Its answer is complete, or given up.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.busy = state.busy.saturating_sub(1);
        state.quiet = Instant::now();
        state.tether = None;
    }

    /// Since when no answer is under way; `None` while one is.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.busy == 0).then_some(state.quiet)
    }

    /// Notes that the guard refused a request and put a stand-in in its place.
    pub(super) fn reject(&self, rejection: Rejection) {
        self.state().rejection = Some(rejection);
    }

    /// The refusal, if there was one.
    pub(super) fn rejection(&self) -> Option<Rejection> {
        self.state().rejection
    }

    /// Tells the guard whether another protocol follows.
    pub(super) fn decide(&self, accepted: bool) {
        let reader = {
            let mut state = self.state();
            state.accepted = Some(accepted);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// The decision about another protocol; until there is one, the task is woken by it.
    pub(super) fn poll_decision(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.state();
        match state.accepted.take() {
            Some(accepted) => Poll::Ready(accepted),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ends the connection, even in the middle of an answer, when `gone` fires before [`Link::end`].
    pub(super) fn tether(&self, gone: CancellationToken) {
        self.state().tether = Some(Box::pin(gone.cancelled_owned()));
    }

    /// Resolves when the connection must be torn down. To be polled after the connection itself, which sets the tether.
    pub(super) fn poll_tether(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state().tether {
            Some(gone) => gone.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
