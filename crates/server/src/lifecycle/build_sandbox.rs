//! Sandboxes that are nobody's, in which steps of builds run. They take a place like others and are known to the registry, so that nobody takes them for strangers; but no row tells of them: a server that dies
//! forgets them, and the next one removes them.

use std::sync::Arc;
use std::time::Duration;

use cabana_guest_link::GuestLink;
use cabana_runtime::{Death, LaunchSpec, Live, Root};
use cabana_storage::Pool;
use cabana_store::Boot;
use cabana_types::error::chain;
use cabana_types::guest::GuestConfig;
use cabana_types::{Resources, SandboxId, TemplateId};
use tokio::sync::oneshot;

use super::Lifecycle;
use super::readiness::explained;

/// What a bench is.
#[derive(Debug, Clone)]
pub(crate) struct BuildSandboxSpec {
    /// Whose builds it is for.
    pub(crate) template: TemplateId,
    /// Its root filesystem.
    pub(crate) root: Root,
    /// Its limits.
    pub(crate) resources: Resources,
    /// What it boots with.
    pub(crate) boot: Boot,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildSandboxError {
    /// There are as many sandboxes as there may be.
    #[error("all {limit} sandboxes are in use: try again when some have ended, or raise limits.max_sandboxes")]
    Capacity {
        /// How many.
        limit: u32,
    },
    /// The server stops.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The backend failed.
    #[error("the sandbox of a step")]
    Backend(#[from] cabana_runtime::Error),
}

/// A sandbox that is up. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct BuildSandbox {
    lifecycle: Arc<Lifecycle>,
    live: Live,
    removed: bool,
}

impl Lifecycle {
    /// Brings one up. Whoever stops waiting leaves nothing: the work goes on in a task of its own, and what nobody takes is removed.
    pub(crate) async fn build_sandbox(
        self: &Arc<Self>,
        spec: BuildSandboxSpec,
    ) -> Result<BuildSandbox, BuildSandboxError> {
        let (answer, answered) = oneshot::channel();
        let this = Arc::clone(self);
        self.tasks.spawn(async move { answer.send(this.start_build_sandbox(spec).await) });
        answered.await.unwrap_or(Err(BuildSandboxError::ShuttingDown))
    }

    async fn start_build_sandbox(self: Arc<Self>, spec: BuildSandboxSpec) -> Result<BuildSandbox, BuildSandboxError> {
        if self.stopping.is_cancelled() {
            return Err(BuildSandboxError::ShuttingDown);
        }
        let id = SandboxId::from_random(rand::random());
        let Some(entry) = self.registry.reserve(&id, self.max_sandboxes) else {
            return Err(BuildSandboxError::Capacity { limit: self.max_sandboxes });
        };
        let _held = entry.lock.lock().await;
        let mib = |mb: u32| u64::from(mb) << 20;
        let launch = self.backend.launch(LaunchSpec {
            id: id.clone(),
            root: spec.root,
            resources: spec.resources,
            mounts: Vec::new(),
            internet: true,
            guest: GuestConfig {
                sandbox_id: id.clone(),
                template_id: spec.template.to_string(),
                access_token: None,
                env_vars: spec.boot.env,
                default_user: spec.boot.default_user,
                default_workdir: spec.boot.default_workdir,
                start: spec.boot.start,
                ready: spec.boot.ready,
                cpu_count: spec.resources.cpu_count,
                memory_bytes: mib(spec.resources.memory_mb),
                disk_bytes: mib(spec.resources.disk_mb),
            },
        });
        match launch.await {
            Ok(live) => Ok(BuildSandbox { lifecycle: Arc::clone(&self), live, removed: false }),
            Err(error) => {
                // The backend has left nothing.
                self.registry.forget(&id);
                Err(error.into())
            }
        }
    }

    async fn remove_build_sandbox(&self, id: &SandboxId) {
        if let Err(error) = self.backend.destroy(id).await {
            tracing::warn!(sandbox = %id, error = chain(&error), "the sandbox of a step is left for the next housekeeping");
        }
        self.registry.forget(id);
    }
}

impl BuildSandbox {
    /// Where its guest listens.
    pub(crate) fn link(&self) -> &GuestLink {
        &self.live.link
    }

    /// Whether it lost a process, or its first one, for lack of memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let vitals = self.live.vitals.borrow();
        vitals.oom_kills > 0 || vitals.death == Some(Death::OutOfMemory)
    }

    /// Waits until its start command runs and its ready check succeeds; says why not.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), String> {
        match self.live.link.readiness(limit).await {
            Ok(readiness) if readiness.ready => Ok(()),
            Ok(readiness) => Err(format!("a sandbox of the template is not ready: {}", explained(&readiness))),
            Err(error) => {
                Err(format!("the guest of a sandbox of the template does not say whether it is ready: {error}"))
            }
        }
    }

    /// Ends it in order and keeps its root filesystem as a layer.
    pub(crate) async fn keep(mut self, pool: &Pool, key: &str) -> Result<(), BuildSandboxError> {
        let id = self.live.id.clone();
        if let Err(error) = self.live.link.stop().await {
            tracing::debug!(sandbox = %id, %error, "the guest of a step did not stop its processes in order");
        }
        self.lifecycle.backend.stop(&id).await?;
        pool.layer_from_disk(&id, key).await.map_err(cabana_runtime::Error::from)?;
        self.removed = true;
        self.lifecycle.remove_build_sandbox(&id).await;
        Ok(())
    }

    /// Removes it.
    pub(crate) async fn remove(mut self) {
        self.removed = true;
        self.lifecycle.remove_build_sandbox(&self.live.id).await;
    }
}

impl Drop for BuildSandbox {
    fn drop(&mut self) {
        if self.removed {
            return;
        }
        let (lifecycle, id) = (Arc::clone(&self.lifecycle), self.live.id.clone());
        let tasks = lifecycle.tasks.clone();
        tasks.spawn(async move { lifecycle.remove_build_sandbox(&id).await });
    }
}
