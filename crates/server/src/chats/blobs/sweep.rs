//! Removes uploads that were never put into a chat, files that no row refers to, and what was left of files that never arrived.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cabana_types::TeamId;
use cabana_types::error::chain;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::Blobs;
use super::draft::DRAFT;

/// The time between sweeps.
const EVERY: Duration = Duration::from_secs(3600);
/// How old a file is at least that is removed, and how long an upload may be in no chat.
const AGE: Duration = Duration::from_secs(24 * 3600);

impl Blobs {
    /// Removes what nothing refers to from time to time.
    pub(crate) async fn keep_sweeping(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
            let sweeping = self.sweep(SystemTime::now() - AGE);
            if stop.run_until_cancelled(sweeping).await.is_none() {
                return;
            }
        }
    }

    /// Removes files from before a time that nothing refers to. Returns how many.
    pub(super) async fn sweep(self: &Arc<Self>, before: SystemTime) -> usize {
        // The rows first: what they referred to is unused then.
        if let Ok(time) = Timestamp::try_from(before)
            && let Err(error) = self.store.delete_unattached(time).await
        {
            tracing::warn!(error = chain(&error), "uploads that are in no chat could not be removed");
        }
        let blobs = Arc::clone(self);
        let listed = tokio::task::spawn_blocking(move || {
            blobs.remove_drafts(Some(before))?;
            blobs.list(before)
        });
        let old = match listed.await.map_err(io::Error::other).and_then(|listed| listed) {
            Ok(old) => old,
            Err(error) => {
                tracing::warn!(%error, "files of chats could not be listed");
                return 0;
            }
        };
        let mut removed = 0;
        for (team, sha256) in old {
            match self.remove_unused(&team, &sha256).await {
                Ok(gone) => removed += usize::from(gone),
                Err(error) => tracing::warn!(error = chain(&error), "a file of a chat could not be removed"),
            }
        }
        removed
    }

    /// Removes unfinished files, or those of them that were last written before a time.
    pub(super) fn remove_drafts(&self, before: Option<SystemTime>) -> io::Result<()> {
        self.visit(|_, name, entry| {
            let old = before.is_none_or(|before| is_before(entry, before));
            if name.starts_with(DRAFT) && old {
                match std::fs::remove_file(entry.path()) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            Ok(())
        })
    }

    fn list(&self, before: SystemTime) -> io::Result<Vec<(TeamId, String)>> {
        let mut old = Vec::new();
        self.visit(|team, name, entry| {
            if !name.starts_with(DRAFT) && is_before(entry, before) {
                old.push((team.clone(), name.to_owned()));
            }
            Ok(())
        })?;
        Ok(old)
    }

    fn visit(&self, mut show: impl FnMut(&TeamId, &str, &std::fs::DirEntry) -> io::Result<()>) -> io::Result<()> {
        for directory in std::fs::read_dir(&self.dir)? {
            let directory = directory?;
            let Some(team) = directory.file_name().to_str().and_then(|name| name.parse::<TeamId>().ok()) else {
                continue;
            };
            for entry in std::fs::read_dir(directory.path())? {
                let entry = entry?;
                if let Some(name) = entry.file_name().to_str() {
                    show(&team, name, &entry)?;
                }
            }
        }
        Ok(())
    }
}

/// A file that is gone is not old.
fn is_before(entry: &std::fs::DirEntry, before: SystemTime) -> bool {
    entry.metadata().and_then(|about| about.modified()).is_ok_and(|modified| modified < before)
}
