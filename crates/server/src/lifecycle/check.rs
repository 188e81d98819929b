//! The consistency check behind `cabana doctor --check`: compares the store with the host and cold storage.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cabana_storage::ColdStore;
use cabana_storage::cold::StoredArchive;
use cabana_store::{BuildStatus, Sandbox, SnapshotState, Store};
use cabana_types::TeamId;
use cabana_types::error::chain;
use cabana_types::sandbox::{Kept, State};

use super::error::ChangeError;
use super::held::Held;
use super::registry::Registry;
use super::routes::Routes;

/// Timeout of listing the archives in cold storage.
const LIST_LIMIT: Duration = Duration::from_secs(10);

/// A difference between the store and the host.
#[derive(Debug)]
pub struct Difference {
    /// The team it concerns; `None` if that is not known.
    pub team: Option<TeamId>,
    pub text: String,
}

/// Compares rows with what is there.
#[derive(Debug)]
pub(super) struct ConsistencyCheck {
    pub(super) store: Store,
    pub(super) registry: Arc<Registry>,
    pub(super) routes: Arc<Routes>,
    pub(super) cold: Arc<ColdStore>,
}

impl ConsistencyCheck {
    /// Describes every difference. Waits for sandboxes that are being changed.
    pub(super) async fn run(&self) -> Result<Vec<Difference>, ChangeError> {
        let mut found = self.orphans().await?;
        found.extend(self.sandboxes().await?);
        found.extend(self.snapshots().await?);
        for (build, status) in self.store.all_builds().await? {
            if status == BuildStatus::Ready && !self.registry.host().has_build(&build).await {
                found.push(Difference { team: None, text: format!("the build {build} has no root filesystem") });
            }
        }
        Ok(found)
    }

    async fn orphans(&self) -> Result<Vec<Difference>, ChangeError> {
        let mut found = vec![];
        for id in self.registry.host().inventory().await.map_err(no_answer)? {
            if self.store.sandbox(&id).await?.is_none_or(|row| !row.state.holds_resources())
                && self.registry.get(&id).is_none()
            {
                found.push(Difference { team: None, text: format!("{id} has resources on the host but no row") });
            }
        }
        Ok(found)
    }

    async fn sandboxes(&self) -> Result<Vec<Difference>, ChangeError> {
        let mut found = vec![];
        let archives = match tokio::time::timeout(LIST_LIMIT, self.cold.list()).await {
            Ok(Ok(archives)) => Some(archives),
            Ok(Err(_)) | Err(_) => None,
        };
        for row in self.store.live_sandboxes().await? {
            // A sandbox that has ended since has no entry and must not get one.
            let Some(entry) = self.registry.get(&row.id) else { continue };
            let held = entry.hold().await;
            // It may have changed before it was held.
            let Some(row) = self.store.sandbox(&row.id).await?.filter(|row| row.state.holds_resources()) else {
                continue;
            };
            found.extend(self.compare(&held, &row).await.map_err(no_answer)?);
            if let State::Paused { kept: Kept::Archive { generation, .. }, .. } = row.state {
                let is = |a: &StoredArchive| a.id == row.id && a.generation == u64::from(generation) && a.complete;
                match &archives {
                    Some(archives) if archives.iter().any(is) => {}
                    Some(_) => found.push(of(&row.team, format!("{} is archived, and its archive is missing", row.id))),
                    None => {
                        found.push(of(&row.team, format!("{} is archived, and cold storage does not answer", row.id)));
                    }
                }
            }
        }
        Ok(found)
    }

    async fn compare(&self, held: &Held, row: &Sandbox) -> Result<Vec<Difference>, cabana_runtime::Error> {
        let id = held.id();
        let seen = held.observe().await?;
        let (processes, frozen, disk) = match &row.state {
            State::Running => (true, false, true),
            State::Paused { kept: Kept::Ram, .. } => (true, true, true),
            State::Paused { kept: Kept::Checkpoint { .. } | Kept::Disk, .. } | State::Failed { .. } => {
                (false, false, true)
            }
            State::Paused { kept: Kept::Archive { .. }, .. } => (false, false, false),
            other => return Ok(vec![of(&row.team, format!("{id} is still {}", other.name()))]),
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
            let (wanted, is) = if frozen { ("frozen", "not") } else { ("running", "frozen") };
            found.push(format!("{id} is {name}: its processes should be {wanted} and are {is}"));
        }
        match (row.state == State::Running, self.routes.get(id).is_some()) {
            (true, false) => found.push(format!("{id} is {name}, and the edge has no route to it")),
            (false, true) => found.push(format!("{id} is {name}, and the edge has a route to it")),
            _ => {}
        }
        Ok(found.into_iter().map(|text| of(&row.team, text)).collect())
    }

    async fn snapshots(&self) -> Result<Vec<Difference>, ChangeError> {
        let mut found = vec![];
        let rows = self.store.all_snapshots().await?;
        let disks: HashSet<_> = self.registry.host().snapshots().await.map_err(no_answer)?.into_iter().collect();
        for row in &rows {
            if row.state == SnapshotState::Ready && !disks.contains(&row.id) {
                found.push(of(&row.team, format!("the snapshot {} has no disk", row.id)));
            }
        }
        for disk in disks.iter().filter(|disk| !rows.iter().any(|row| row.id == **disk)) {
            found.push(Difference { team: None, text: format!("the snapshot {disk} has a disk but no row") });
        }
        Ok(found)
    }
}

fn of(team: &TeamId, text: String) -> Difference {
    Difference { team: Some(team.clone()), text }
}

fn no_answer(error: cabana_runtime::Error) -> ChangeError {
    ChangeError::Unsupported(format!("the backend does not answer: {}", chain(&error)))
}
