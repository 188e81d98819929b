//! Build sandboxes: each runs one step of a template build. They count towards the limit of running sandboxes and are registered, so that
//! maintenance does not take them for orphans; but they have no row: a server that crashes forgets them, and the next one removes them.

use std::sync::Arc;
use std::time::Duration;

use cabana_guest_link::GuestLink;
use cabana_runtime::{Death, Live, Root};
use cabana_storage::Pool;
use cabana_store::Boot;
use cabana_types::error::chain;
use cabana_types::{EgressPolicy, Resources, SandboxId, TemplateId};
use tokio::sync::oneshot;

use super::entry::Entry;
use super::registry::{Registry, Shortage};
use super::tasks::Tasks;
use super::{launch, readiness};

/// What a build sandbox consists of.
#[derive(Debug, Clone)]
pub(crate) struct BuildSandboxSpec {
    /// The template that is built.
    pub(crate) template: TemplateId,
    pub(crate) root: Root,
    pub(crate) resources: Resources,
    pub(crate) boot: Boot,
}

/// Why a build sandbox could not be started, or its disk not be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildSandboxError {
    /// The server runs as many sandboxes as it may.
    #[error(transparent)]
    Capacity(#[from] Shortage),
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("the sandbox of a step")]
    Backend(#[from] cabana_runtime::Error),
}

/// Starts and removes build sandboxes.
#[derive(Debug)]
pub(super) struct BuildSandboxes {
    registry: Arc<Registry>,
    /// Where they may connect.
    egress: Arc<EgressPolicy>,
    tasks: Tasks,
}

/// A running build sandbox. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct BuildSandbox {
    sandboxes: Arc<BuildSandboxes>,
    entry: Arc<Entry>,
    live: Live,
    removed: bool,
}

impl BuildSandboxes {
    pub(super) fn new(registry: Arc<Registry>, egress: Arc<EgressPolicy>, tasks: Tasks) -> Self {
        Self { registry, egress, tasks }
    }

    /// Starts a build sandbox, in a task of its own: if the caller is cancelled, the sandbox is removed.
    pub(super) async fn start(self: &Arc<Self>, spec: BuildSandboxSpec) -> Result<BuildSandbox, BuildSandboxError> {
        let (answer, answered) = oneshot::channel();
        let this = Arc::clone(self);
        self.tasks.spawn("start a build sandbox", async move { answer.send(this.launch(spec).await) });
        answered.await.unwrap_or(Err(BuildSandboxError::ShuttingDown))
    }

    async fn launch(self: Arc<Self>, spec: BuildSandboxSpec) -> Result<BuildSandbox, BuildSandboxError> {
        if self.tasks.is_stopping() {
            return Err(BuildSandboxError::ShuttingDown);
        }
        let id = SandboxId::from_random(rand::random());
        let entry = self.registry.reserve(&id, spec.resources)?;
        let held = entry.hold().await;
        match held.launch(launch::of_build_sandbox(id.clone(), spec, Arc::clone(&self.egress))).await {
            Ok(live) => {
                drop(held);
                Ok(BuildSandbox { sandboxes: self, entry, live, removed: false })
            }
            Err(error) => {
                // The backend leaves nothing behind.
                self.registry.remove(&id);
                Err(error.into())
            }
        }
    }

    async fn remove(&self, entry: &Arc<Entry>) {
        let held = entry.hold().await;
        if let Err(error) = held.destroy().await {
            tracing::warn!(sandbox = %held.id(), error = chain(&error), "could not remove the build sandbox; maintenance will");
        }
        self.registry.remove(held.id());
    }
}

impl BuildSandbox {
    /// The link to its guest.
    pub(crate) fn link(&self) -> &GuestLink {
        &self.live.link
    }

    /// Whether one of its processes was killed because of its memory limit.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let vitals = self.live.vitals.borrow();
        vitals.oom_kills > 0 || vitals.death == Some(Death::OutOfMemory)
    }

    /// Waits until its start command runs and its ready command succeeds, or returns the reason why not.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), String> {
        match self.live.link.readiness(limit).await {
            Ok(readiness) if readiness.ready => Ok(()),
            Ok(readiness) => {
                Err(format!("a sandbox of the template is not ready: {}", readiness::describe(&readiness)))
            }
            Err(error) => {
                Err(format!("the guest of a sandbox of the template does not say whether it is ready: {error}"))
            }
        }
    }

    /// Stops it and keeps its root filesystem as a layer.
    pub(crate) async fn keep(mut self, pool: &Pool, key: &str) -> Result<(), BuildSandboxError> {
        let id = &self.live.id;
        if let Err(error) = self.live.link.stop().await {
            tracing::debug!(sandbox = %id, %error, "the guest of the build sandbox did not stop its processes");
        }
        self.entry.hold().await.stop().await?;
        pool.layer_from_disk(id, key).await.map_err(cabana_runtime::Error::from)?;
        self.sandboxes.remove(&self.entry).await;
        self.removed = true;
        Ok(())
    }

    pub(crate) async fn remove(mut self) {
        self.sandboxes.remove(&self.entry).await;
        self.removed = true;
    }
}

impl Drop for BuildSandbox {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        let (sandboxes, entry) = (Arc::clone(&self.sandboxes), Arc::clone(&self.entry));
        self.sandboxes.tasks.spawn("remove a build sandbox", async move { sandboxes.remove(&entry).await });
    }
}
