//! The connections to one sandbox: the idle ones that can be used again, how many there are, and which ports need the bridge.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cabana_body_drain::TrackedBody;
use cabana_types::SandboxId;
use cabana_types::routing::GUEST_PORT;
use hyper::client::conn::http1::SendRequest;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::directory::Route;

/// Idle connections kept for one sandbox, over all its ports.
const MAX_IDLE: usize = 32;
/// Connections that may be open to one sandbox.
const MAX_OPEN: usize = 4096;
/// Ports remembered to need the bridge.
const MAX_BRIDGED: usize = 1024;
/// The guest keeps idle connections for long.
const GUEST_IDLE: Duration = Duration::from_secs(60);
/// Servers of users often close idle connections after 5 seconds; being earlier avoids the race.
const PORT_IDLE: Duration = Duration::from_secs(4);
/// How often idle connections are looked through.
const SWEEP: Duration = Duration::from_secs(2);

/// Everything the edge holds open to one sandbox.
pub(super) struct Reach {
    /// The way to it.
    pub(super) route: Arc<Route>,
    idle: Mutex<Vec<Idle>>,
    bridged: Mutex<HashSet<u16>>,
    open: Arc<AtomicUsize>,
    filled: Notify,
}

struct Idle {
    port: u16,
    since: Instant,
    sender: SendRequest<TrackedBody>,
}

impl Idle {
    fn is_stale(&self) -> bool {
        let allowed = if self.port == GUEST_PORT { GUEST_IDLE } else { PORT_IDLE };
        self.sender.is_closed() || self.since.elapsed() > allowed
    }
}

/// A place among the open connections of a sandbox.
pub(super) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Reach {
    fn new(route: Arc<Route>) -> Self {
        Self { route, idle: Mutex::default(), bridged: Mutex::default(), open: Arc::default(), filled: Notify::new() }
    }

    /// A place for one more connection, if there is one.
    pub(super) fn place(&self) -> Option<Place> {
        let place = Place(self.open.clone());
        (self.open.fetch_add(1, Ordering::Relaxed) < MAX_OPEN).then_some(place)
    }

    /// An idle connection to the port that can take a request at once. The youngest first, so that the rest can age.
    pub(super) fn take(&self, port: u16) -> Option<SendRequest<TrackedBody>> {
        let mut idle = lock(&self.idle);
        idle.retain(|idle| !idle.is_stale());
        let at = idle.iter().rposition(|idle| idle.port == port && idle.sender.is_ready())?;
        Some(idle.remove(at).sender)
    }

    /// Keeps a connection whose answer was read to its end. It becomes ready a moment later.
    pub(super) fn put(&self, port: u16, sender: SendRequest<TrackedBody>) {
        if sender.is_closed() {
            return;
        }
        let mut idle = lock(&self.idle);
        // Under the lock, so that nothing is put after the last look at `gone`.
        if self.route.gone.is_cancelled() {
            return;
        }
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        let first = idle.is_empty();
        idle.push(Idle { port, since: Instant::now(), sender });
        drop(idle);
        if first {
            self.filled.notify_one();
        }
    }

    /// Whether the port was last reached through the bridge.
    pub(super) fn is_bridged(&self, port: u16) -> bool {
        lock(&self.bridged).contains(&port)
    }

    /// Remembers how the port was reached.
    pub(super) fn learn(&self, port: u16, bridged: bool) {
        let mut ports = lock(&self.bridged);
        if !bridged {
            ports.remove(&port);
            return;
        }
        if ports.len() >= MAX_BRIDGED {
            ports.clear();
        }
        ports.insert(port);
    }

    /// Closes connections that were idle for too long; whether any are left.
    fn sweep(&self) -> bool {
        let mut idle = lock(&self.idle);
        idle.retain(|idle| !idle.is_stale());
        !idle.is_empty()
    }

    /// Closes idle connections in time, until the sandbox is gone.
    async fn keep(self: Arc<Self>, closing: CancellationToken) {
        loop {
            tokio::select! {
                () = self.route.gone.cancelled() => break,
                () = closing.cancelled() => break,
                () = self.filled.notified() => {}
            }
            while self.sweep() {
                tokio::select! {
                    () = self.route.gone.cancelled() => break,
                    () = closing.cancelled() => break,
                    () = sleep(SWEEP) => {}
                }
                if self.route.gone.is_cancelled() || closing.is_cancelled() {
                    break;
                }
            }
        }
        lock(&self.idle).clear();
    }
}

type Known = Mutex<HashMap<SandboxId, Arc<Reach>>>;

/// All sandboxes that were asked for something and are up.
pub(super) struct Reaches {
    known: Arc<Known>,
    closing: CancellationToken,
    _closes: DropGuard,
}

impl Reaches {
    pub(super) fn new() -> Self {
        let closing = CancellationToken::new();
        Self { known: Arc::default(), _closes: closing.clone().drop_guard(), closing }
    }

    /// The connections to a sandbox.
    pub(super) fn of(&self, route: &Arc<Route>) -> Arc<Reach> {
        let mut known = lock(&self.known);
        // A sandbox that came back has a new route, and old connections lead nowhere.
        if let Some(reach) = known.get(&route.id).filter(|reach| Arc::ptr_eq(&reach.route, route)) {
            return reach.clone();
        }
        let reach = Arc::new(Reach::new(route.clone()));
        known.insert(route.id.clone(), reach.clone());
        drop(known);
        let (kept, closing, known) = (reach.clone(), self.closing.clone(), Arc::downgrade(&self.known));
        tokio::spawn(async move {
            kept.clone().keep(closing).await;
            forget(&known, &kept);
        });
        reach
    }
}

fn forget(known: &Weak<Known>, reach: &Arc<Reach>) {
    if let Some(known) = known.upgrade() {
        let mut known = lock(&known);
        if known.get(&reach.route.id).is_some_and(|current| Arc::ptr_eq(current, reach)) {
            known.remove(&reach.route.id);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
