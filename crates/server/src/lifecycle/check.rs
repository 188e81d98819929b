//! Whether the world is as the store says: what `cabana doctor --check` asks.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cabana_storage::cold::StoredArchive;
use cabana_store::{BuildStatus, Sandbox, SnapshotState};
use cabana_types::sandbox::{Kept, State};

use super::Lifecycle;
use super::driver::ChangeError;

/// How long cold storage may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(10);

impl Lifecycle {
    /// Every difference between what is remembered and what is there, in words. Sandboxes on which somebody works are looked at when that is done.
    pub async fn differences(self: &Arc<Self>) -> Result<Vec<String>, ChangeError> {
        let failed = |error: cabana_runtime::Error| {
            ChangeError::Unsupported(format!("the backend cannot be asked: {}", cabana_types::error::chain(&error)))
        };
        let mut found = vec![];
        let present: HashSet<_> = self.backend.inventory().await.map_err(failed)?.into_iter().collect();
        for id in &present {
            if self.store.sandbox(id).await?.is_none_or(|row| !row.state.holds_resources())
                && self.registry.get(id).is_none()
            {
                found.push(format!("{id} is there, but nobody remembers it"));
            }
        }
        let archives = match tokio::time::timeout(PATIENCE, self.cold.list()).await {
            Ok(Ok(archives)) => Some(archives),
            Ok(Err(_)) | Err(_) => None,
        };
        for row in self.store.living().await? {
            // One that has ended meanwhile has no entry, and must not get one.
            let Some(entry) = self.registry.get(&row.id) else { continue };
            let _held = entry.lock.lock().await;
            // It may have changed while we waited.
            let Some(row) = self.store.sandbox(&row.id).await?.filter(|row| row.state.holds_resources()) else {
                continue;
            };
            found.extend(self.compare(&row).await.map_err(failed)?);
            if let State::Paused { kept: Kept::Archive { generation, .. }, .. } = row.state {
                let is = |a: &StoredArchive| a.id == row.id && a.generation == u64::from(generation) && a.complete;
                match &archives {
                    Some(archives) if archives.iter().any(is) => {}
                    Some(_) => found.push(format!("{} is archived, and its archive is missing", row.id)),
                    None => found.push(format!("{} is archived, and cold storage does not answer", row.id)),
                }
            }
        }
        let rows = self.store.all_snapshots().await?;
        let copies: HashSet<_> = self.backend.snapshots().await.map_err(failed)?.into_iter().collect();
        for row in &rows {
            if row.state == SnapshotState::Ready && !copies.contains(&row.id) {
                found.push(format!("the snapshot {} has no copy of its disk", row.id));
            }
        }
        for copy in copies.iter().filter(|copy| !rows.iter().any(|row| row.id == **copy)) {
            found.push(format!("{copy} is a copy of a disk that nobody remembers"));
        }
        for (build, status) in self.store.all_builds().await? {
            if status == BuildStatus::Ready && !self.backend.has_build(&build).await {
                found.push(format!("the build {build} has no root filesystem"));
            }
        }
        Ok(found)
    }

    async fn compare(&self, row: &Sandbox) -> Result<Vec<String>, cabana_runtime::Error> {
        let id = &row.id;
        let seen = self.backend.observe(id).await?;
        let (processes, frozen, disk) = match &row.state {
            State::Running => (true, false, true),
            State::Paused { kept: Kept::Ram, .. } => (true, true, true),
            State::Paused { kept: Kept::Checkpoint { .. } | Kept::Disk, .. } | State::Failed { .. } => {
                (false, false, true)
            }
            State::Paused { kept: Kept::Archive { .. }, .. } => (false, false, false),
            other => return Ok(vec![format!("{id} is still {}", other.name())]),
        };
        let name = row.state.name();
        let mut found = vec![];
        let mut differ = |what: &str, wanted: bool, is: bool| {
            if wanted != is {
                let (wanted, is) = if wanted { ("should be", "is not") } else { ("should not be", "is") };
                found.push(format!("{id} is {name}: {what} {wanted} there and {is}"));
            }
        };
        differ("its first process", processes, seen.processes);
        differ("its disk", disk, seen.disk);
        if processes && seen.processes && frozen != seen.frozen {
            let (wanted, is) = if frozen { ("frozen", "not") } else { ("going on", "frozen") };
            found.push(format!("{id} is {name}: its processes should be {wanted} and are {is}"));
        }
        if (row.state == State::Running) != self.directory.get(id).is_some() {
            found.push(format!("{id} is {name}, and the edge knows better"));
        }
        Ok(found)
    }
}
