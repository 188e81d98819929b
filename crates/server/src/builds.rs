//! Builds templates: from steps or a Dockerfile to a root filesystem. Each step runs in its own build sandbox on a copy
//! of the previous step's result. The result is a layer, cached under a key of all its inputs, so that the same step is
//! not run twice.

mod accounts;
mod base;
mod build_task;
mod command;
mod copying;
mod e2b_steps;
mod failure;
mod files;
mod finish;
mod in_progress;
mod log;
mod settling;
mod spec;
mod step_runner;
mod sweep;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cabana_fs::space::Space;
use cabana_http::Timeouts;
use cabana_image::blobs::Blobs;
use cabana_image::sources::Sources;
use cabana_storage::Pool;
use cabana_store::{LogLevel, Snapshot, Store};
use cabana_supervisor::{Restart, Supervisor, catch_panic};
use cabana_types::error::chain;
use cabana_types::{BuildId, TemplateId};
use jiff::Timestamp;
use tokio::sync::{RwLock, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::config::{self, Config};
use crate::error::Error;
use crate::lifecycle::Lifecycle;
use base::Layer;
use build_task::{BuildOutput, BuildTask};
use failure::Failure;
pub use files::{Files, ReceiveError, Room};
use in_progress::InProgress;
pub use spec::{BuildSpec, Origin, Recipe};

/// Steps of all builds that run concurrently.
const STEPS_AT_ONCE: usize = 4;
/// Timeout for a registry's response.
const ANSWER: Duration = Duration::from_secs(12);
/// How long builds may take to end when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a cancelled build may take to end. Steps end at once; removing what they left may take a while.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason of a cancelled build.
pub(crate) const CANCELLED: &str = "it was cancelled";

/// Builds templates.
pub struct Builds {
    store: Store,
    lifecycle: Arc<Lifecycle>,
    settings: config::Builds,
    /// The registries that the operator allows, and mirrors.
    sources: Sources,
    timeouts: Timeouts,
    blobs: Blobs,
    files: Files,
    /// Limits concurrent builds; others wait.
    turns: Semaphore,
    steps: Semaphore,
    /// Held by builds for reading: layers are removed only while no build is in progress.
    layers: RwLock<()>,
    in_progress: InProgress,
    sweeper: Supervisor,
}

/// Why a build was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Busy,
    /// This server does not support it.
    #[error("{0}")]
    NotSupported(String),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] cabana_store::Error),
}

impl std::fmt::Debug for Builds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builds").field("in_progress", &self.in_progress.len()).finish_non_exhaustive()
    }
}

impl Builds {
    /// Cleans up after an earlier server: marks builds that were in progress as failed, and removes what they unpacked.
    pub async fn open(
        store: Store,
        lifecycle: Arc<Lifecycle>,
        config: &Config,
        supervisor: &Supervisor,
    ) -> Result<Arc<Self>, Error> {
        let interrupted = store.interrupt_builds(Timestamp::now()).await?;
        for build in &interrupted {
            tracing::warn!(%build, "a build was interrupted by the end of the previous server");
        }
        let [work, uploads, images] = ["work", "files", "images"].map(|name| config.data_dir.join(name));
        let bytes = |mb: u32| u64::from(mb) << 20;
        let room = Room { one: bytes(config.builds.max_upload_mb), team: bytes(config.builds.max_team_uploads_mb) };
        let space = lifecycle.pool().map_or_else(Space::unlimited, |pool| pool.space().clone());
        let opened = tokio::task::spawn_blocking(move || {
            // Earlier versions unpacked contexts there.
            remove(&work)?;
            let blobs = Blobs::open_within(&images, space.clone()).map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>((Files::open(&uploads, room, space)?, blobs))
        });
        let (files, blobs) =
            opened.await.map_err(std::io::Error::other).and_then(|opened| opened).map_err(Error::Builds)?;
        let settings = config.builds.clone();
        let builds = Arc::new(Self {
            store,
            lifecycle,
            sources: config.images.clone(),
            timeouts: Timeouts { head: Some(ANSWER), ..Timeouts::default() },
            blobs,
            files,
            turns: Semaphore::new(settings.concurrent as usize),
            steps: Semaphore::new(STEPS_AT_ONCE),
            layers: RwLock::default(),
            in_progress: InProgress::default(),
            sweeper: supervisor.scope(),
            settings,
        });
        builds.remove_trees(&interrupted).await;
        let swept = Arc::clone(&builds);
        builds.sweeper.restart("build sweeper", Restart::forever(), move |stop| Arc::clone(&swept).keep_sweeping(stop));
        Ok(builds)
    }

    /// Starts a build that waits. It runs in the background.
    pub async fn start(self: &Arc<Self>, spec: BuildSpec) -> Result<(), StartError> {
        if self.in_progress.is_stopping() {
            return Err(StartError::Busy);
        }
        let pool = self.lifecycle.pool().filter(|pool| pool.copies()).cloned().ok_or_else(|| {
            let text = "Templates can only be built where the pool is btrfs: put the data directory on btrfs, or set pool.kind";
            StartError::NotSupported(text.to_owned())
        })?;
        let id = spec.build.clone();
        self.store.begin_build(id.clone(), Timestamp::now()).await?;
        self.in_progress.start(&id, |cancel| Arc::clone(self).build(spec, pool, cancel));
        Ok(())
    }

    /// Waits until a build has ended. `false` if it takes longer than any build may.
    pub async fn wait(&self, build: &BuildId) -> bool {
        self.in_progress.wait(build, self.time_limit() + CANCEL_TIMEOUT).await
    }

    /// Cancels a build, if it is in progress, and waits until it has ended. `false` if it does not within a minute.
    pub async fn cancel(&self, build: &BuildId) -> bool {
        let ended = self.in_progress.cancel(build, CANCEL_TIMEOUT).await;
        if !ended {
            tracing::warn!(%build, "a cancelled build has not ended yet");
        }
        ended
    }

    /// Removes the root filesystems of deleted builds. A later sweep retries what cannot be removed now.
    pub async fn remove_trees(&self, builds: &[BuildId]) {
        let Some(pool) = self.lifecycle.pool() else { return };
        for build in builds {
            if let Err(error) = pool.delete_build(build).await {
                tracing::warn!(%build, error = chain(&error), "the root filesystem of a build could not be removed");
            }
        }
    }

    /// How many builds run or wait.
    pub fn in_progress(&self) -> usize {
        self.in_progress.len()
    }

    /// The archives that clients have uploaded.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Cancels all builds; they fail.
    pub async fn stop(&self) {
        self.sweeper.stop(STOP_TIMEOUT).await;
        if !self.in_progress.stop(STOP_TIMEOUT).await {
            tracing::warn!("some builds did not end in time; the next start removes what they leave");
        }
    }

    fn time_limit(&self) -> Duration {
        Duration::from_secs(u64::from(self.settings.timeout_minutes) * 60)
    }

    /// Runs a build to its end. A panic is a failure like others: the build never stays `building`.
    async fn build(self: Arc<Self>, spec: BuildSpec, pool: Arc<Pool>, cancel: CancellationToken) {
        let id = spec.build.clone();
        let task = Arc::new(BuildTask::new(Arc::clone(&self), pool, spec, self.time_limit()));
        self.in_progress.tasks().spawn("build log", task.log.clone().keep_flushing());
        let outcome = catch_panic(self.run(Arc::clone(&task), cancel)).await.unwrap_or_else(|panicked| {
            tracing::error!(build = %id, %panicked, "a build panicked");
            Err(Failure::new("", "the server failed"))
        });
        task.stop.cancel();
        let made = outcome.is_ok();
        let outcome = outcome.map(|output| output.boot);
        if catch_panic(self.clean_up(&task, outcome.as_ref().err())).await.is_err() {
            tracing::error!(build = %id, "the cleanup after a build panicked; the next sweep removes what is left");
        }
        let written = settling::settle(&self.store, &id, outcome).await;
        if made && written.is_err() {
            self.remove_trees(std::slice::from_ref(&id)).await;
        }
    }

    async fn run(&self, task: Arc<BuildTask>, cancel: CancellationToken) -> Result<BuildOutput, Failure> {
        tokio::select! {
            () = cancel.cancelled() => {
                let stopped = "the server was stopped; start the build again: finished steps are kept";
                Err(Failure::new("", if self.in_progress.is_stopping() { stopped } else { CANCELLED }))
            }
            () = tokio::time::sleep(self.time_limit()) => {
                let minutes = self.settings.timeout_minutes;
                Err(Failure::new("", format!("it took longer than {minutes} minutes (builds.timeout_minutes)")))
            }
            outcome = self.work(task) => outcome,
        }
    }

    /// Releases and removes what a build no longer needs, and completes its log.
    async fn clean_up(&self, task: &BuildTask, failure: Option<&Failure>) {
        if let Some(copy) = task.spec.lent() {
            self.give_back(&task.pool, copy).await;
        }
        if let Err(error) = self.store.touch_cache(task.take_used(), Timestamp::now()).await {
            tracing::warn!(error = chain(&error), "the use of layers could not be written");
        }
        match failure {
            None => task.log.write(LogLevel::Info, Some(finish::FINALIZE), "the template is ready"),
            Some(failure) => {
                let step = (!failure.step.is_empty()).then_some(failure.step.as_str());
                task.log.write(LogLevel::Error, step, failure.message.clone());
                self.remove_trees(std::slice::from_ref(&task.spec.build)).await;
            }
        }
        // Clients stop reading the log once the status is final, so complete the log first.
        task.log.close().await;
    }

    /// Removes the layer that builds have made of a snapshot's disk. While a build is in progress, which may need it,
    /// the layer is left to the sweep.
    pub async fn forget_disk(&self, copy: &TemplateId) {
        if let (Some(pool), Ok(_alone)) = (self.lifecycle.pool(), self.layers.try_write()) {
            remove_disk(pool, copy).await;
        }
    }

    /// Removes a snapshot that was made for one build only, and the tree that was made of it.
    async fn give_back(&self, pool: &Pool, copy: &Snapshot) {
        remove_disk(pool, &copy.id).await;
        self.lifecycle.remove_temporary_snapshot(&copy.id).await;
    }

    async fn work(&self, task: Arc<BuildTask>) -> Result<BuildOutput, Failure> {
        let _turn = self.turns.acquire().await;
        let _layers = self.layers.read().await;
        let output = Box::pin(task.make()).await?;
        Box::pin(task.finish(&output)).await?;
        Ok(output)
    }
}

/// Removes a directory, if it is there.
fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the tree that was made of a snapshot.
async fn remove_disk(pool: &Pool, copy: &TemplateId) {
    if let Err(error) = pool.delete_layer(&Layer::disk(copy).key.hex()).await {
        tracing::warn!(%copy, error = chain(&error), "could not remove the tree of a snapshot; the next sweep retries");
    }
}
