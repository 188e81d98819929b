//! What services need to know of sandboxes: which of them run.

use std::sync::Arc;

use cabana_types::SandboxId;
use jiff::Timestamp;

use super::Services;
use crate::lifecycle::RouteObserver;

impl RouteObserver for Services {
    fn published(self: Arc<Self>, id: &SandboxId) {
        let entries = self.of_sandbox(id);
        // One that runs already has been looked at by whoever published it.
        let (false, Some(route)) = (entries.is_empty(), self.directory.get(id)) else { return };
        let now = Timestamp::now();
        for entry in entries {
            entry.see(|seen| (seen.awake_since, seen.open) = (Some(now), None));
            let (this, route) = (Arc::clone(&self), Arc::clone(&route));
            self.tasks.spawn("drive a service", async move { this.drive(&entry, &route).await });
        }
    }

    fn withdrawn(self: Arc<Self>, id: &SandboxId) {
        let entries = self.of_sandbox(id);
        if entries.is_empty() {
            return;
        }
        let this = Arc::clone(&self);
        let id = id.clone();
        self.tasks.spawn("tell of services", async move {
            for entry in &entries {
                this.tell(entry).await;
            }
            this.forget_ended(&id).await;
        });
    }

    fn keeps_awake(&self, id: &SandboxId) -> bool {
        self.read().by_sandbox.get(id).is_some_and(|entries| {
            entries.iter().any(|entry| {
                let row = entry.row();
                row.up && row.settings.always_on
            })
        })
    }
}

impl Services {
    /// Looks at the services of all sandboxes that run, when the server has started.
    pub(crate) fn adopt_running(self: &Arc<Self>) {
        let ids: Vec<SandboxId> = self.read().by_sandbox.keys().cloned().collect();
        for id in ids {
            Arc::clone(self).published(&id);
        }
    }

    /// Keeps nothing in memory of the services of a sandbox that has ended.
    async fn forget_ended(&self, id: &SandboxId) {
        let has_ended = match self.store.sandbox(id).await {
            Ok(Some(row)) => {
                row.state.cause().is_some() && !matches!(row.state, cabana_types::sandbox::State::Failed { .. })
            }
            Ok(None) => true,
            Err(_) => false,
        };
        if has_ended {
            let mut index = self.write();
            for entry in index.by_sandbox.get(id).cloned().unwrap_or_default() {
                index.remove(&entry.id);
            }
        }
    }
}
