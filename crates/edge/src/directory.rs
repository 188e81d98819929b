//! The running sandboxes and how to reach them: written by the server, read by the edge on every request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use cabana_guest_link::GuestLink;
use cabana_types::{SandboxId, Secret, Traffic};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

/// How to reach a running sandbox.
#[derive(Debug)]
pub struct Route {
    /// The sandbox.
    pub id: SandboxId,
    /// How its guest and its ports are reached.
    pub link: GuestLink,
    /// The guest's token, to find the sandbox of a request that does not name it.
    pub access_token: Option<Secret>,
    /// Access to its ports other than the guest's.
    pub traffic: Traffic,
    /// Requests between the edge and it.
    pub in_flight: Arc<InFlight>,
    /// Cancelled when the sandbox stops running: every stream through the edge is then cut.
    pub gone: CancellationToken,
    /// Since when it runs.
    pub since: Instant,
    /// Whether it was created or booted then. Otherwise it was resumed with its memory, or adopted by a restarted server.
    pub booted: bool,
}

/// All routes.
#[derive(Debug, Default)]
pub struct Directory {
    routes: RwLock<Routes>,
}

#[derive(Debug, Default)]
struct Routes {
    by_id: HashMap<SandboxId, Arc<Route>>,
    /// By the SHA-256 of the access token, so that the time of a lookup tells nothing about tokens.
    by_token: HashMap<[u8; 32], SandboxId>,
}

impl Directory {
    /// The route of a sandbox, if it is running.
    pub fn get(&self, id: &SandboxId) -> Option<Arc<Route>> {
        self.read().by_id.get(id).cloned()
    }

    /// The route of the sandbox with this access token, if it is running.
    pub fn by_token(&self, token: &[u8]) -> Option<Arc<Route>> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let routes = self.read();
        let id = routes.by_token.get(&digest)?;
        routes.by_id.get(id).cloned()
    }

    /// All routes at this moment, in no order.
    pub fn all(&self) -> Vec<Arc<Route>> {
        self.read().by_id.values().cloned().collect()
    }

    /// Publishes a sandbox that is now running.
    pub fn insert(&self, route: Route) {
        let mut routes = self.write();
        if let Some(digest) = token_digest(&route) {
            routes.by_token.insert(digest, route.id.clone());
        }
        let id = route.id.clone();
        let replaced = routes.by_id.insert(id, Arc::new(route));
        if let Some(replaced) = replaced {
            routes.forget_token(&replaced);
        }
    }

    /// Withdraws a sandbox and cuts every stream to it.
    pub fn remove(&self, id: &SandboxId) {
        let mut routes = self.write();
        if let Some(route) = routes.by_id.remove(id) {
            routes.forget_token(&route);
            route.gone.cancel();
        }
    }

    /// How many sandboxes are running.
    pub fn len(&self) -> usize {
        self.read().by_id.len()
    }

    /// Whether none is running.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read(&self) -> RwLockReadGuard<'_, Routes> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Routes> {
        self.routes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Routes {
    /// Removes the token of a route that was removed or replaced, unless the sandbox's current route has the same one.
    fn forget_token(&mut self, old: &Route) {
        let Some(digest) = token_digest(old) else { return };
        if self.by_id.get(&old.id).and_then(|route| token_digest(route)) == Some(digest) {
            return;
        }
        if self.by_token.get(&digest) == Some(&old.id) {
            self.by_token.remove(&digest);
        }
    }
}

fn token_digest(route: &Route) -> Option<[u8; 32]> {
    route.access_token.as_ref().map(|token| Sha256::digest(token.expose()).into())
}

/// Counts the requests between the edge and one sandbox, so that it is not paused while one is in flight.
#[derive(Debug, Default)]
pub struct InFlight(Mutex<Counters>);

#[derive(Debug, Default)]
struct Counters {
    /// Requests, responses and tunnels in flight.
    open: usize,
    /// Whether there was any since the last [`InFlight::take_busy`].
    touched: bool,
    /// No new request is accepted: the sandbox is about to be paused.
    closed: bool,
}

impl InFlight {
    /// A request begins; `None` if the sandbox is about to be paused.
    pub fn begin(self: &Arc<Self>) -> Option<InFlightGuard> {
        let mut counters = self.counters();
        if counters.closed {
            return None;
        }
        counters.open += 1;
        counters.touched = true;
        Some(InFlightGuard(Arc::clone(self)))
    }

    /// A request begins that neither keeps the sandbox awake nor counts as activity; `false` if the sandbox is about to be paused.
    pub fn begin_quiet(&self) -> bool {
        !self.counters().closed
    }

    /// Whether a request is in flight, or was since the last call.
    pub fn take_busy(&self) -> bool {
        let mut counters = self.counters();
        std::mem::take(&mut counters.touched) || counters.open > 0
    }

    /// Accepts no new requests, unless one is in flight or was since [`InFlight::take_busy`]; returns `false` then.
    pub fn close_if_idle(&self) -> bool {
        let mut counters = self.counters();
        counters.closed = counters.open == 0 && !counters.touched;
        counters.closed
    }

    /// Accepts requests again.
    pub fn reopen(&self) {
        self.counters().closed = false;
    }

    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a request counted as in flight until it is dropped.
#[derive(Debug)]
pub struct InFlightGuard(Arc<InFlight>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut counters = self.0.counters();
        counters.open -= 1;
        counters.touched = true;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::PathBuf;

    use super::*;

    fn route(id: &str, token: &str) -> Route {
        Route {
            id: id.parse().expect("id"),
            link: GuestLink::UnixShared { socket: PathBuf::new(), address: Ipv4Addr::LOCALHOST },
            access_token: Some(Secret::new(token)),
            traffic: Traffic::default(),
            in_flight: Arc::default(),
            gone: CancellationToken::new(),
            since: Instant::now(),
            booted: false,
        }
    }

    #[test]
    fn tokens_lead_to_running_sandboxes_only() {
        let directory = Directory::default();
        let owner = |token: &str| directory.by_token(token.as_bytes()).map(|route| route.id.to_string());
        directory.insert(route("ia", "one"));
        directory.insert(route("ib", "two"));
        assert_eq!(owner("one").as_deref(), Some("ia"));
        assert_eq!(owner("three"), None);
        // A new route of the same sandbox, with the same token and with another.
        directory.insert(route("ia", "one"));
        assert_eq!(owner("one").as_deref(), Some("ia"));
        directory.insert(route("ia", "new"));
        assert_eq!((owner("one"), owner("new").as_deref()), (None, Some("ia")));
        directory.remove(&"ia".parse().expect("id"));
        assert_eq!((owner("new"), owner("two").as_deref()), (None, Some("ib")));
        assert_eq!(directory.len(), 1);
    }
}
