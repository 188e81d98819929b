//! What makes a running sandbox reachable and lets it expire: its route for the edge and its deadline.

use std::sync::Arc;

use cabana_runtime::Live;
use cabana_store::Sandbox;
use cabana_types::SandboxId;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::expiry::Expiry;
use cabana_edge::directory::{Directory, Route};

/// Routes and deadlines of running sandboxes.
#[derive(Debug)]
pub(super) struct Routes {
    directory: Arc<Directory>,
    pub(super) expiry: Expiry,
}

impl Routes {
    pub(super) fn new(directory: Arc<Directory>) -> Self {
        Self { directory, expiry: Expiry::default() }
    }

    /// The route of a running sandbox.
    pub(super) fn get(&self, id: &SandboxId) -> Option<Arc<Route>> {
        self.directory.get(id)
    }

    /// How many sandboxes run.
    pub(super) fn len(&self) -> usize {
        self.directory.len()
    }

    /// Publishes a running sandbox. The token is cancelled when it is withdrawn.
    pub(super) fn publish(&self, sandbox: &Sandbox, live: &Live) -> CancellationToken {
        let gone = CancellationToken::new();
        self.directory.insert(Route {
            id: live.id.clone(),
            link: live.link.clone(),
            access_token: sandbox.access_token.clone(),
            traffic: sandbox.traffic.clone(),
            in_flight: Arc::default(),
            gone: gone.clone(),
        });
        self.expiry.set(&live.id, sandbox.end_at, Timestamp::now());
        gone
    }

    /// Removes a sandbox's route and deadline, and cuts all its connections.
    pub(super) fn withdraw(&self, id: &SandboxId) {
        self.directory.remove(id);
        self.expiry.remove(id);
    }
}
