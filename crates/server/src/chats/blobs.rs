//! Files of chats: uploads, artifacts, pictures. Equal files of a team are kept once, named after the hash of their content. A file is
//! there whole or not at all; one that no row refers to is removed.

mod draft;
mod sweep;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_fs::space::Space;
use cabana_store::Store;
use cabana_types::TeamId;
use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;

pub(crate) use self::draft::{Blob, Draft};
use self::draft::{DraftFile, make_dir};
use crate::config::Config;
use crate::error::Error;
use crate::lifecycle::Lifecycle;

/// Files that are received at the same time; further ones wait.
const AT_ONCE: usize = 32;
/// How long one waits for others.
const TURN: Duration = Duration::from_secs(60);

/// Why a file was not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlobError {
    /// It is larger than so many bytes.
    #[error("it is larger than {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// The team's files would have more than so many bytes.
    #[error("the team's files would have more than {} MiB", .0 >> 20)]
    Full(u64),
    /// The disk would be too full; the text says how full it is.
    #[error("{0}")]
    NoSpace(io::Error),
    #[error("too many files are being received")]
    Busy,
    #[error("write a file of a chat")]
    Io(#[from] io::Error),
    #[error("the store failed")]
    Store(#[from] cabana_store::Error),
}

/// The files of all teams.
#[derive(Debug)]
pub(crate) struct Blobs {
    dir: PathBuf,
    store: Store,
    space: Space,
    /// Bytes of a team.
    max_team: u64,
    turns: Arc<Semaphore>,
    held: Arc<Mutex<Held>>,
    /// Held while a file gets its name, and while one is removed.
    naming: tokio::sync::Mutex<()>,
}

/// What no row refers to yet, but will.
#[derive(Debug, Default)]
struct Held {
    /// Bytes by team.
    bytes: HashMap<TeamId, u64>,
    /// How often each file is held.
    files: HashMap<(TeamId, String), usize>,
}

impl Blobs {
    /// Those of a server, where everything else has to fit too.
    pub(crate) fn of_server(config: &Config, store: &Store, lifecycle: &Lifecycle) -> Result<Arc<Self>, Error> {
        let space = lifecycle.pool().map_or_else(Space::unlimited, |pool| pool.space().clone());
        let (path, most) = (config.data_dir.join("blobs"), u64::from(config.chat.max_blob_mb) << 20);
        Self::open(&path, store.clone(), space, most).map_err(|source| Error::Path { action: "open", path, source })
    }

    /// Opens a directory, which is made if it is missing, and removes unfinished files of an earlier server.
    pub(crate) fn open(dir: &Path, store: Store, space: Space, max_team: u64) -> io::Result<Arc<Self>> {
        make_dir(dir)?;
        let blobs = Arc::new(Self {
            dir: dir.to_owned(),
            store,
            space,
            max_team,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            held: Arc::default(),
            naming: tokio::sync::Mutex::default(),
        });
        blobs.remove_drafts(None)?;
        Ok(blobs)
    }

    /// Begins a file of at most so many bytes. What was written is removed with the draft.
    pub(crate) async fn begin(&self, team: &TeamId, most: u64) -> Result<Draft, BlobError> {
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(BlobError::Busy) };
        let kept = self.store.attachment_bytes(team).await?;
        let left = self.max_team.saturating_sub(kept);
        let space = self.space.reserve(0).map_err(BlobError::NoSpace)?;
        let file = DraftFile::create(&self.dir.join(team.as_str()))?;
        let share = Share { held: Arc::clone(&self.held), team: team.clone(), bytes: 0 };
        Ok(Draft::new(file, most, (left, self.max_team), space, share, turn))
    }

    /// Keeps a file. It stays at least as long as the result.
    pub(crate) async fn finish(&self, draft: Draft) -> Result<Blob, BlobError> {
        let sealed = draft.seal().await?;
        let path = self.path(&sealed.share.team, &sealed.sha256);
        let _naming = self.naming.lock().await;
        let pin = Pin::new(&self.held, &sealed.share.team, &sealed.sha256);
        let file = sealed.file;
        // Also over an equal file: that one may be damaged.
        tokio::task::spawn_blocking(move || file.keep(&path)).await.map_err(io::Error::other)??;
        Ok(Blob { sha256: sealed.sha256, size: sealed.size, head: sealed.head, _pin: pin, _share: sealed.share })
    }

    /// Keeps bytes.
    #[cfg(test)]
    pub(crate) async fn put(&self, team: &TeamId, bytes: &[u8]) -> Result<Blob, BlobError> {
        let mut draft = self.begin(team, u64::MAX).await?;
        draft.write(bytes).await?;
        self.finish(draft).await
    }

    /// Holds a file that is there, for a row that will refer to it; `None` if there is none.
    pub(crate) async fn hold(&self, team: &TeamId, sha256: &str) -> Option<Pin> {
        let _naming = self.naming.lock().await;
        let there = tokio::fs::metadata(self.path(team, sha256)).await.is_ok();
        there.then(|| Pin::new(&self.held, team, sha256))
    }

    /// A file, for reading.
    pub(crate) async fn read(&self, team: &TeamId, sha256: &str) -> io::Result<tokio::fs::File> {
        tokio::fs::File::open(self.path(team, sha256)).await
    }

    /// The content of a file that has at most so many bytes.
    pub(crate) async fn content(&self, team: &TeamId, sha256: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let file = self.read(team, sha256).await?;
        file.take(most.saturating_add(1)).read_to_end(&mut content).await?;
        match content.len() as u64 > most {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(content),
        }
    }

    /// Removes a file unless a row refers to it, or will. Returns whether it was removed.
    pub(crate) async fn remove_unused(&self, team: &TeamId, sha256: &str) -> Result<bool, BlobError> {
        let _naming = self.naming.lock().await;
        let key = (team.clone(), sha256.to_owned());
        if held(&self.held).files.contains_key(&key) || self.store.blob_is_used(team, sha256).await? {
            return Ok(false);
        }
        match tokio::fs::remove_file(self.path(team, sha256)).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn path(&self, team: &TeamId, sha256: &str) -> PathBuf {
        self.dir.join(team.as_str()).join(sha256)
    }
}

fn held(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that stays, whether a row refers to it or not.
#[derive(Debug)]
pub(crate) struct Pin {
    held: Arc<Mutex<Held>>,
    key: (TeamId, String),
}

impl Pin {
    fn new(all: &Arc<Mutex<Held>>, team: &TeamId, sha256: &str) -> Self {
        let key = (team.clone(), sha256.to_owned());
        *held(all).files.entry(key.clone()).or_default() += 1;
        Self { held: Arc::clone(all), key }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut held = held(&self.held);
        match held.files.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                held.files.remove(&self.key);
            }
        }
    }
}

/// Bytes that count for a team before a row does.
#[derive(Debug)]
struct Share {
    held: Arc<Mutex<Held>>,
    team: TeamId,
    bytes: u64,
}

impl Share {
    /// Adds bytes, unless all shares of the team would then have more than `most`.
    fn add(&mut self, bytes: u64, most: u64) -> bool {
        let mut held = held(&self.held);
        let all = held.bytes.entry(self.team.clone()).or_default();
        if all.saturating_add(bytes) > most {
            return false;
        }
        *all += bytes;
        self.bytes += bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = held(&self.held);
        if let Some(all) = held.bytes.get_mut(&self.team) {
            *all = all.saturating_sub(self.bytes);
            if *all == 0 {
                held.bytes.remove(&self.team);
            }
        }
    }
}

#[cfg(test)]
mod tests;
