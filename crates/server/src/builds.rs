//! Building templates: from steps or a Dockerfile to a root filesystem. Each step runs in a sandbox of its own on a copy of what the step before left, and is kept under a key of everything
//! that makes it, so that a build that was built before is not built again.

mod accounts;
mod base;
mod command;
mod copying;
mod failure;
mod files;
mod finish;
mod job;
mod log;
mod order;
mod stage;
mod steps;
mod sweep;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_image::blobs::Blobs;
use cabana_image::registry::Patience;
use cabana_image::sources::Sources;
use cabana_storage::Pool;
use cabana_store::{LogLevel, Snapshot, Store};
use cabana_types::error::chain;
use cabana_types::{BuildId, TemplateId};
use jiff::Timestamp;
use tokio::sync::{RwLock, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{self, Config};
use crate::error::Error;
use crate::lifecycle::Lifecycle;
use base::Ground;
pub use files::{Files, ReceiveError, Room};
use job::{Job, Made};
pub use order::{Order, Origin, Recipe};

/// Steps that run at the same time, of all builds.
const STEPS_AT_ONCE: usize = 4;
/// How long a registry may take to answer.
const ANSWER: Duration = Duration::from_secs(12);
/// How long builds may take to end when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// Why a build failed that somebody ended.
pub(crate) const CANCELLED: &str = "it was cancelled";

/// What builds templates.
pub struct Builds {
    store: Store,
    lifecycle: Arc<Lifecycle>,
    settings: config::Builds,
    /// The operator's word on registries.
    sources: Sources,
    patience: Patience,
    blobs: Blobs,
    files: Files,
    /// Where contexts are unpacked.
    work: PathBuf,
    /// Builds at the same time; others wait.
    turns: Semaphore,
    steps: Semaphore,
    /// Held by builds for reading: layers are removed only while none is under way.
    layers: RwLock<()>,
    under_way: Mutex<HashMap<BuildId, UnderWay>>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

#[derive(Debug, Clone)]
struct UnderWay {
    cancel: CancellationToken,
    ended: CancellationToken,
}

/// Why a build was not begun.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server stops.
    #[error("the server is shutting down")]
    Busy,
    /// This server cannot do it.
    #[error("{0}")]
    NotSupported(String),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] cabana_store::Error),
}

impl std::fmt::Debug for Builds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builds").field("under_way", &self.under_way().len()).finish_non_exhaustive()
    }
}

impl Builds {
    /// Takes up what an earlier server left: builds that were under way have failed, what they had unpacked goes.
    pub async fn open(store: Store, lifecycle: Arc<Lifecycle>, config: &Config) -> Result<Arc<Self>, Error> {
        let interrupted = store.interrupt_builds(Timestamp::now()).await?;
        for build in &interrupted {
            tracing::warn!(%build, "a build was interrupted by the end of the server before");
        }
        let work = config.data_dir.join("work");
        let (directory, uploads, images) =
            (work.clone(), config.data_dir.join("files"), config.data_dir.join("images"));
        let bytes = |mb: u32| u64::from(mb) << 20;
        let room = Room {
            one: bytes(config.builds.max_upload_mb),
            team: bytes(config.builds.max_team_uploads_mb),
            spare: lifecycle.pool().map_or(0, |pool| pool.spare()),
        };
        let opened = tokio::task::spawn_blocking(move || {
            make_empty(&directory)?;
            Ok::<_, std::io::Error>((
                Files::open(&uploads, room)?,
                base::open_blobs(&images).map_err(std::io::Error::other)?,
            ))
        });
        let (files, blobs) =
            opened.await.map_err(std::io::Error::other).and_then(|opened| opened).map_err(Error::Builds)?;
        let settings = config.builds.clone();
        let builds = Arc::new(Self {
            store,
            lifecycle,
            sources: config.images.clone(),
            patience: Patience { answer: ANSWER, ..Patience::default() },
            blobs,
            files,
            work,
            turns: Semaphore::new(settings.concurrent as usize),
            steps: Semaphore::new(STEPS_AT_ONCE),
            layers: RwLock::default(),
            under_way: Mutex::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            settings,
        });
        builds.remove_trees(&interrupted).await;
        builds.tasks.spawn(Arc::clone(&builds).keep_sweeping());
        Ok(builds)
    }

    /// Begins a build that waits. It goes on by itself.
    pub async fn start(self: &Arc<Self>, order: Order) -> Result<(), StartError> {
        if self.stopping.is_cancelled() {
            return Err(StartError::Busy);
        }
        let pool = self.lifecycle.pool().filter(|pool| pool.copies()).cloned().ok_or_else(|| {
            let text = "Templates can only be built where the pool is btrfs: put the data directory on btrfs, or set pool.kind";
            StartError::NotSupported(text.to_owned())
        })?;
        self.store.begin_build(order.build.clone(), Timestamp::now()).await?;
        let under_way = UnderWay { cancel: self.stopping.child_token(), ended: CancellationToken::new() };
        self.under_way().insert(order.build.clone(), under_way.clone());
        self.tasks.spawn(Arc::clone(self).build(order, pool, under_way));
        Ok(())
    }

    /// Waits until a build is no longer under way.
    pub async fn ended(&self, build: &BuildId) {
        let found = self.under_way().get(build).cloned();
        if let Some(found) = found {
            found.ended.cancelled().await;
        }
    }

    /// Ends a build, if it is under way, and returns when it has ended.
    pub async fn cancel(&self, build: &BuildId) {
        let found = self.under_way().get(build).cloned();
        if let Some(found) = found {
            found.cancel.cancel();
            found.ended.cancelled().await;
        }
    }

    /// Removes the root filesystems of builds that are no more. What cannot be removed now goes with a later sweep.
    pub async fn remove_trees(&self, builds: &[BuildId]) {
        let Some(pool) = self.lifecycle.pool() else { return };
        for build in builds {
            if let Err(error) = pool.delete_build(build).await {
                tracing::warn!(%build, error = chain(&error), "the root filesystem of a build could not be removed");
            }
        }
    }

    /// What clients have uploaded.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Ends all builds, which fail.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_WAIT, self.tasks.wait()).await.is_err() {
            tracing::warn!("some builds did not end in time; the next start removes what they leave");
        }
    }

    async fn build(self: Arc<Self>, order: Order, pool: Arc<Pool>, under_way: UnderWay) {
        let id = order.build.clone();
        let time = Duration::from_secs(u64::from(self.settings.timeout_minutes) * 60);
        let job = Arc::new(Job::new(Arc::clone(&self), pool, order, time));
        let flushed = CancellationToken::new();
        let flushing = self.tasks.spawn(job.log.clone().keep_flushing(flushed.clone()));
        let outcome = tokio::select! {
            () = under_way.cancel.cancelled() => {
                let why = if self.stopping.is_cancelled() { "the server was stopped; start the build again: finished steps are kept" } else { CANCELLED };
                Err(failure::Failure::new("", why))
            }
            () = tokio::time::sleep(time) => {
                let minutes = self.settings.timeout_minutes;
                Err(failure::Failure::new("", format!("it took longer than {minutes} minutes (builds.timeout_minutes)")))
            }
            outcome = self.work(Arc::clone(&job)) => outcome,
        };
        job.stop.cancel();
        if let Some(copy) = job.order.lent() {
            self.give_back(&job.pool, copy).await;
        }
        let used = job.take_used();
        if let Err(error) = self.store.touch_layers(used, Timestamp::now()).await {
            tracing::warn!(error = chain(&error), "the use of layers could not be noted");
        }
        match &outcome {
            Ok(_) => job.log.write(LogLevel::Info, Some(finish::FINALIZE), "the template is ready"),
            Err(failure) => {
                let step = (!failure.step.is_empty()).then_some(failure.step.as_str());
                job.log.write(LogLevel::Error, step, failure.message.clone());
            }
        }
        if outcome.is_err() {
            self.remove_trees(std::slice::from_ref(&id)).await;
        }
        // The log is complete before the status tells clients that nothing more comes.
        flushed.cancel();
        let _ = flushing.await;
        self.settle(&id, outcome).await;
        self.under_way().remove(&id);
        under_way.ended.cancel();
    }

    /// Removes the tree that builds have made of a copy of a disk. While a build is under way, which may need it, it is left to the sweep.
    pub async fn forget_disk(&self, copy: &TemplateId) {
        if let (Some(pool), Ok(_alone)) = (self.lifecycle.pool(), self.layers.try_write()) {
            remove_disk(pool, copy).await;
        }
    }

    /// Removes a copy of a disk that was made for one build alone, and the tree that was made of it.
    async fn give_back(&self, pool: &Pool, copy: &Snapshot) {
        remove_disk(pool, &copy.id).await;
        self.lifecycle.return_copy(&copy.id).await;
    }

    async fn work(&self, job: Arc<Job>) -> Result<Made, failure::Failure> {
        let _turn = self.turns.acquire().await;
        let _layers = self.layers.read().await;
        let made = Box::pin(job.make()).await?;
        Box::pin(job.finish(&made)).await?;
        Ok(made)
    }

    /// Writes how a build ended. Until that is written, the next start would call it interrupted.
    async fn settle(&self, id: &BuildId, outcome: Result<Made, failure::Failure>) {
        let now = Timestamp::now();
        let written = match outcome {
            Ok(made) => self.store.finish_build(id.clone(), made.boot, now).await.map(drop),
            Err(failure) => {
                let step = (!failure.step.is_empty()).then_some(failure.step);
                self.store.fail_build(id.clone(), step, failure.message, now).await
            }
        };
        match written {
            Ok(()) => {}
            // Its template was deleted meanwhile: what is left of it goes with the next sweep.
            Err(error) => tracing::warn!(build = %id, error = chain(&error), "how a build ended could not be written"),
        }
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<BuildId, UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory of our own with nothing in it.
fn make_empty(path: &std::path::Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(path)
}

/// Removes the tree that was made of a copy of a disk.
async fn remove_disk(pool: &Pool, copy: &TemplateId) {
    if let Err(error) = pool.delete_layer(&Ground::disk(copy).key.hex()).await {
        tracing::warn!(%copy, error = chain(&error), "the tree of a disk's copy is left to the next sweep");
    }
}
