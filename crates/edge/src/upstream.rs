//! The edge's connections to each sandbox: idle ones for reuse, their number, and which ports need the bridge.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cabana_body_drain::TrackedBody;
use cabana_http1::Sender;
use cabana_types::SandboxId;
use cabana_types::routing::GUEST_PORT;
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
const GUEST_IDLE: Duration = Duration::from_secs(60);
/// Many servers close idle connections after 5 seconds; closing earlier avoids the race.
const PORT_IDLE: Duration = Duration::from_secs(4);
/// How often idle connections are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The connections to one sandbox.
pub(crate) struct Upstream {
    pub(crate) route: Arc<Route>,
    idle: Mutex<Vec<Idle>>,
    bridged: Mutex<HashSet<u16>>,
    open: Arc<AtomicUsize>,
    /// The first idle connection was added.
    filled: Notify,
}

struct Idle {
    port: u16,
    since: Instant,
    sender: Sender<TrackedBody>,
}

impl Idle {
    fn is_stale(&self) -> bool {
        let allowed = if self.port == GUEST_PORT { GUEST_IDLE } else { PORT_IDLE };
        self.sender.is_closed() || self.since.elapsed() > allowed
    }
}

/// Counts one open connection until it is dropped.
pub(crate) struct ConnectionPermit(Arc<AtomicUsize>);

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Upstream {
    fn new(route: Arc<Route>) -> Self {
        Self { route, idle: Mutex::default(), bridged: Mutex::default(), open: Arc::default(), filled: Notify::new() }
    }

    /// Permission to open one more connection; `None` at the limit.
    pub(crate) fn permit(&self) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit(self.open.clone());
        (self.open.fetch_add(1, Ordering::Relaxed) < MAX_OPEN).then_some(permit)
    }

    /// An idle connection to the port that is ready for a request. The most recent first, so that the others can time out.
    pub(crate) fn take(&self, port: u16) -> Option<Sender<TrackedBody>> {
        let mut idle = lock(&self.idle);
        idle.retain(|idle| !idle.is_stale());
        let at = idle.iter().rposition(|idle| idle.port == port && idle.sender.is_ready())?;
        Some(idle.remove(at).sender)
    }

    /// Keeps a connection whose response was read to its end. It becomes ready a moment later.
    pub(crate) fn put(&self, port: u16, sender: Sender<TrackedBody>) {
        if sender.is_closed() {
            return;
        }
        let mut idle = lock(&self.idle);
        // Under the lock, so that nothing is added after `close_idle` has cleared the list.
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
    pub(crate) fn is_bridged(&self, port: u16) -> bool {
        lock(&self.bridged).contains(&port)
    }

    /// Remembers how the port was reached.
    pub(crate) fn set_bridged(&self, port: u16, bridged: bool) {
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

    /// Closes connections that were idle for too long; returns whether any are left.
    fn drop_stale(&self) -> bool {
        let mut idle = lock(&self.idle);
        idle.retain(|idle| !idle.is_stale());
        !idle.is_empty()
    }

    /// Closes idle connections in time, until the sandbox is gone.
    async fn close_idle(self: Arc<Self>, closing: CancellationToken) {
        loop {
            tokio::select! {
                () = self.route.gone.cancelled() => break,
                () = closing.cancelled() => break,
                () = self.filled.notified() => {}
            }
            while self.drop_stale() {
                tokio::select! {
                    () = self.route.gone.cancelled() => break,
                    () = closing.cancelled() => break,
                    () = sleep(CHECK_INTERVAL) => {}
                }
                if self.route.gone.is_cancelled() || closing.is_cancelled() {
                    break;
                }
            }
        }
        lock(&self.idle).clear();
    }
}

type ById = Mutex<HashMap<SandboxId, Arc<Upstream>>>;

/// The connections to all running sandboxes that had requests.
pub(crate) struct Upstreams {
    by_id: Arc<ById>,
    closing: CancellationToken,
    _closes: DropGuard,
}

impl Upstreams {
    pub(crate) fn new() -> Self {
        let closing = CancellationToken::new();
        Self { by_id: Arc::default(), _closes: closing.clone().drop_guard(), closing }
    }

    /// The connections to a sandbox.
    pub(crate) fn of(&self, route: &Arc<Route>) -> Arc<Upstream> {
        let mut by_id = lock(&self.by_id);
        // A sandbox that was resumed has a new route, and old connections lead nowhere.
        if let Some(upstream) = by_id.get(&route.id).filter(|upstream| Arc::ptr_eq(&upstream.route, route)) {
            return upstream.clone();
        }
        let upstream = Arc::new(Upstream::new(route.clone()));
        by_id.insert(route.id.clone(), upstream.clone());
        drop(by_id);
        let (kept, closing, by_id) = (upstream.clone(), self.closing.clone(), Arc::downgrade(&self.by_id));
        // Ends with the sandbox or with this edge.
        tokio::spawn(async move {
            kept.clone().close_idle(closing).await;
            forget(&by_id, &kept);
        });
        upstream
    }
}

fn forget(by_id: &Weak<ById>, upstream: &Arc<Upstream>) {
    if let Some(by_id) = by_id.upgrade() {
        let mut by_id = lock(&by_id);
        if by_id.get(&upstream.route.id).is_some_and(|current| Arc::ptr_eq(current, upstream)) {
            by_id.remove(&upstream.route.id);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
