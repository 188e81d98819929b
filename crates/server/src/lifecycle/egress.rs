//! Where sandboxes may connect: changing it, and reporting what was denied.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cabana_store::Sandbox;
use cabana_types::egress::Denials;
use cabana_types::error::chain;
use cabana_types::sandbox::{Kept, State};
use cabana_types::{EgressPolicy, SandboxId};
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use super::entry::Entry;
use super::error::{ChangeError, Operation};
use super::held::Held;
use crate::failpoint;

/// How long the denials of one sandbox may take to read.
const READ_LIMIT: Duration = Duration::from_secs(2);
/// Rules that an event names.
const RULES_OF_EVENT: usize = 20;

impl Driver {
    /// Replaces where a sandbox may connect: at once if it runs or its memory is kept, otherwise when it is resumed.
    pub(super) async fn set_egress(
        self: &Arc<Self>,
        id: &SandboxId,
        policy: Arc<EgressPolicy>,
    ) -> Result<Sandbox, ChangeError> {
        self.change(id, move |this, held| async move {
            let id = held.id().clone();
            let before = this.drive(&held, None).await?;
            let has_slot = match &before.state {
                State::Running | State::Paused { kept: Kept::Ram, .. } => true,
                State::Paused { .. } | State::Failed { .. } => false,
                other => return Err(ChangeError::Conflict { id, state: other.name() }),
            };
            let policy = policy.with_placeholders_of(&before.egress);
            // The row first: a server that dies before it has changed the packet filter does so when it starts again.
            let sandbox = this.store.set_egress(id.clone(), Arc::clone(&policy), Timestamp::now()).await?;
            failpoint::hit("egress.written");
            if !has_slot {
                return Ok(sandbox);
            }
            match held.set_egress(policy).await {
                Ok(()) => {
                    failpoint::hit("egress.applied");
                    // Not for one that is frozen: it is told when it is resumed.
                    if let Some(route) = this.routes.get(&id) {
                        this.trust(&sandbox, &route.link).await;
                    }
                    Ok(sandbox)
                }
                Err(error) => {
                    this.store.set_egress(id.clone(), before.egress, Timestamp::now()).await?;
                    match error {
                        cabana_runtime::Error::NotOffered { .. } => Err(ChangeError::Unsupported(chain(&error))),
                        _ => Err(ChangeError::Failed { id, operation: Operation::Change, failure: error.into() }),
                    }
                }
            }
        })
        .await
    }

    /// What a sandbox was denied since it was started; nothing if that cannot be found out now.
    pub(super) async fn denials(&self, id: &SandboxId) -> Denials {
        let Some(entry) = self.registry.get(id) else { return Denials::default() };
        let read = async { entry.hold().await.denials().await };
        match tokio::time::timeout(READ_LIMIT, read).await {
            Ok(Ok(denials)) => denials,
            Ok(Err(error)) => {
                tracing::debug!(sandbox = %id, error = chain(&error), "could not read the denied connections");
                Denials::default()
            }
            Err(_) => Denials::default(),
        }
    }
}

/// Writes events about denied connections, at most one for each sandbox and round.
#[derive(Debug)]
pub(super) struct DenialEvents {
    pub(super) driver: Arc<Driver>,
    pub(super) interval: Duration,
}

impl DenialEvents {
    /// Looks at all running sandboxes periodically until the server stops.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        // What was told so far. What an earlier server has counted, it has told: the first round only takes note.
        let (mut told, mut first): (HashMap<SandboxId, u64>, bool) = (HashMap::new(), true);
        loop {
            let running: Vec<Arc<Entry>> = self.driver.registry.all();
            told.retain(|id, _| running.iter().any(|entry| entry.id == *id));
            for entry in running {
                let Some(held) = entry.try_hold() else { continue };
                let before = if first { u64::MAX } else { told.get(&entry.id).copied().unwrap_or_default() };
                if let Some(total) = self.tell(&held, before).await {
                    told.insert(entry.id.clone(), total);
                }
            }
            first = false;
            if stop.run_until_cancelled(tokio::time::sleep(self.interval)).await.is_none() {
                return;
            }
        }
    }

    /// Writes an event if more was denied than `before`, and returns how much. `u64::MAX` writes none.
    async fn tell(&self, held: &Held, before: u64) -> Option<u64> {
        let (id, read) = (held.id(), tokio::time::timeout(READ_LIMIT, held.denials()).await);
        let denials = read.ok()?.ok()?;
        // A sandbox that was started again begins at zero.
        let fresh = denials.total.checked_sub(before).unwrap_or(denials.total);
        if fresh > 0 && before < u64::MAX {
            let mut rules: Vec<(&String, &u64)> = denials.by_rule.iter().collect();
            rules.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            rules.truncate(RULES_OF_EVENT);
            let last = denials.recent.back().map(|denial| denial.destination.as_str());
            let details = json!({
                "denied": fresh, "total": denials.total, "byRule": rules.into_iter().collect::<HashMap<_, _>>(), "last": last,
            });
            if let Err(error) = self.driver.store.note_denials(id.clone(), details, Timestamp::now()).await {
                // Also for a build sandbox, which has no row.
                tracing::debug!(sandbox = %id, error = chain(&error), "could not write an event about denials");
            }
        }
        Some(denials.total)
    }
}
