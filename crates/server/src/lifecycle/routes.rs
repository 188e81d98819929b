//! What makes a running sandbox reachable and lets it expire: its route for the edge and its deadline.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cabana_runtime::Live;
use cabana_store::Sandbox;
use cabana_types::SandboxId;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::expiry::Expiry;
use cabana_edge::directory::{Directory, Route};

/// Who needs to know which sandboxes run.
pub trait RouteObserver: Debug + Send + Sync {
    /// A sandbox can be reached.
    fn published(self: Arc<Self>, id: &SandboxId);
    /// It cannot be reached any more.
    fn withdrawn(self: Arc<Self>, id: &SandboxId);
    /// Whether it is not to be paused when it is idle.
    fn keeps_awake(&self, id: &SandboxId) -> bool;
}

/// Routes and deadlines of running sandboxes.
#[derive(Debug)]
pub(super) struct Routes {
    directory: Arc<Directory>,
    observer: OnceLock<Arc<dyn RouteObserver>>,
    pub(super) expiry: Expiry,
}

impl Routes {
    pub(super) fn new(directory: Arc<Directory>) -> Self {
        Self { directory, observer: OnceLock::new(), expiry: Expiry::default() }
    }

    /// Tells somebody of sandboxes that run or do not run any more, from now on.
    pub(super) fn observe(&self, observer: Arc<dyn RouteObserver>) {
        // There is one, set once.
        let _ = self.observer.set(observer);
    }

    /// Whether a sandbox is not to be paused when it is idle.
    pub(super) fn keeps_awake(&self, id: &SandboxId) -> bool {
        self.observer.get().is_some_and(|observer| observer.keeps_awake(id))
    }

    /// The route of a running sandbox.
    pub(super) fn get(&self, id: &SandboxId) -> Option<Arc<Route>> {
        self.directory.get(id)
    }

    /// How many sandboxes run.
    pub(super) fn len(&self) -> usize {
        self.directory.len()
    }

    /// Publishes a running sandbox, which has booted just now or ran before. The token is cancelled when it is withdrawn.
    pub(super) fn publish(&self, sandbox: &Sandbox, live: &Live, booted: bool) -> CancellationToken {
        let gone = CancellationToken::new();
        self.directory.insert(Route {
            id: live.id.clone(),
            link: live.link.clone(),
            access_token: sandbox.access_token.clone(),
            traffic: sandbox.traffic.clone(),
            in_flight: Arc::default(),
            gone: gone.clone(),
            since: Instant::now(),
            booted,
        });
        self.expiry.set(&live.id, sandbox.end_at, Timestamp::now());
        if let Some(observer) = self.observer.get() {
            Arc::clone(observer).published(&live.id);
        }
        gone
    }

    /// Removes a sandbox's route and deadline, and cuts all its connections.
    pub(super) fn withdraw(&self, id: &SandboxId) {
        self.directory.remove(id);
        self.expiry.remove(id);
        if let Some(observer) = self.observer.get() {
            Arc::clone(observer).withdrawn(id);
        }
    }
}
