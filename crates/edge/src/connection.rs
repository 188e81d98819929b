//! The state of one client connection, shared by the guard that reads its bytes, the service that handles its requests, and the task that
//! drives it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clients::Place;
use crate::cuts::Cuts;
use crate::guard::Rejection;

/// A new connection has this long to send its request.
const BRIEFLY_IDLE: Duration = Duration::from_millis(500);
/// A client may be busy for this long before it reads on.
const BRIEFLY_UNREAD: Duration = Duration::from_secs(10);

/// Who is at the other end of a connection; every request carries it as an extension.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The client's address.
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
}

/// The client that a request counts for, which a proxy may have named; every request to the API carries it as an
/// extension. `None` for this machine.
#[derive(Debug, Clone, Copy)]
pub struct ClientAddress(pub Option<IpAddr>);

/// The connection of a request to the API that asks for an upgrade, which carries it as an extension.
#[derive(Clone)]
pub struct Upgrading(Arc<Connection>);

impl Upgrading {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self(connection)
    }

    /// Counts the connection as open and in use for as long as what is returned lives.
    pub fn hold(&self) -> HeldConnection {
        // It serves nothing else after the upgrade, so nothing has to end this.
        self.0.begin();
        HeldConnection(Arc::clone(&self.0))
    }
}

/// A connection in use by an upgraded protocol.
pub struct HeldConnection(Arc<Connection>);

impl HeldConnection {
    /// Resolves when the connection must end now.
    pub async fn closing(&self) {
        self.0.closing.cancelled().await;
    }
}

/// One client connection.
pub(crate) struct Connection {
    pub(crate) peer: Peer,
    /// Cancelled when the connection must end now.
    pub(crate) closing: CancellationToken,
    /// Counts it among the connections that may be open. A tunnel keeps the place by keeping the connection.
    pub(crate) place: Place,
    state: Mutex<State>,
}

struct State {
    /// Requests whose responses are not complete.
    in_flight: usize,
    /// When the last response was complete.
    idle_since: Instant,
    /// The responses whose last part was handed to the connection, which has not asked for more, and since when.
    unread: HashMap<u64, Instant>,
    rejection: Option<Rejection>,
    /// Whether the requested upgrade was accepted.
    upgrade_accepted: Option<bool>,
    reader: Option<Waker>,
    /// Resolves when the response that is being streamed must be cut.
    cut: Option<BoxFuture<'static, ()>>,
}

impl State {
    fn new() -> Self {
        Self {
            in_flight: 0,
            idle_since: Instant::now(),
            unread: HashMap::new(),
            rejection: None,
            upgrade_accepted: None,
            reader: None,
            cut: None,
        }
    }
}

impl Connection {
    /// A connection that ends with `closing`, or alone.
    pub(crate) fn new(peer: Peer, closing: &CancellationToken, place: Place) -> Self {
        Self { peer, closing: closing.child_token(), place, state: Mutex::new(State::new()) }
    }

    /// A request begins.
    pub(crate) fn begin(&self) {
        self.state().in_flight += 1;
    }

    /// Its response is complete, or was dropped.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.idle_since = Instant::now();
        state.cut = None;
    }

    /// Since when no request is in flight; `None` while one is.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.in_flight == 0).then_some(state.idle_since)
    }

    /// Records whether the client has to read before more of a response can be sent.
    pub(crate) fn set_unread(&self, response: u64, unread: bool) {
        let mut state = self.state();
        if unread {
            state.unread.insert(response, Instant::now());
        } else {
            state.unread.remove(&response);
        }
    }

    /// Since when the client reads none of the responses in flight; `None` if it reads, or if none is in flight.
    pub(crate) fn unread_since(&self) -> Option<Instant> {
        let state = self.state();
        let all = state.in_flight > 0 && state.unread.len() == state.in_flight;
        state.unread.values().max().copied().filter(|_| all)
    }

    /// Since when the connection serves nobody: it has been idle or unread for a while.
    pub(crate) fn useless_since(&self) -> Option<Instant> {
        let unread = || self.unread_since().filter(|since| since.elapsed() >= BRIEFLY_UNREAD);
        self.idle_since().filter(|since| since.elapsed() >= BRIEFLY_IDLE).or_else(unread)
    }

    /// Records that the guard rejected a request and replaced it with a placeholder.
    pub(crate) fn reject(&self, rejection: Rejection) {
        self.state().rejection = Some(rejection);
    }

    /// The rejection, if there was one.
    pub(crate) fn rejection(&self) -> Option<Rejection> {
        self.state().rejection
    }

    /// Lets the guard know whether the upgrade was accepted.
    pub(crate) fn decide_upgrade(&self, accepted: bool) {
        let reader = {
            let mut state = self.state();
            state.upgrade_accepted = Some(accepted);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Resolves when it is decided whether the upgrade was accepted.
    pub(crate) fn poll_upgrade(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.state();
        match state.upgrade_accepted.take() {
            Some(accepted) => Poll::Ready(accepted),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Cuts the connection, even in the middle of a response, if one of `cuts` fires before [`Connection::end`].
    pub(crate) fn cut_when(&self, cuts: Cuts) {
        self.state().cut = Some(cuts.cancelled());
    }

    /// Resolves when the connection must be cut. To be polled after hyper's connection, whose service calls [`Connection::cut_when`].
    pub(crate) fn poll_cut(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state().cut {
            Some(cut) => cut.poll_unpin(cx),
            None => Poll::Pending,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
