//! Watching one sandbox: it may run out of memory, or end by itself.

use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::{Death, Vitals};
use cabana_types::SandboxId;
use cabana_types::sandbox::{EndCause, Transition};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Lifecycle;
use crate::failpoint;

/// At most one note about lost processes in this time: a sandbox can be out of memory all day long.
const NOTE_EVERY: Duration = Duration::from_secs(1);

impl Lifecycle {
    pub(super) async fn watch(
        self: Arc<Self>,
        id: SandboxId,
        mut vitals: watch::Receiver<Vitals>,
        gone: CancellationToken,
        mut told: u64,
    ) {
        loop {
            let now = *vitals.borrow_and_update();
            if let Some(death) = now.death {
                return self.died(&id, death).await;
            }
            let noted = now.oom_kills > told;
            if noted {
                self.note_oom(&id, now.oom_kills - told, now.oom_kills).await;
                told = now.oom_kills;
            }
            let changed = async {
                if noted {
                    tokio::time::sleep(NOTE_EVERY).await;
                }
                vitals.changed().await
            };
            tokio::select! {
                () = gone.cancelled() => return,
                () = self.stopping.cancelled() => return,
                changed = changed => if changed.is_err() {
                    tracing::error!(sandbox = %id, "the backend stopped watching a sandbox that is up");
                    return self.died(&id, Death::Died).await;
                }
            }
        }
    }

    async fn died(self: &Arc<Self>, id: &SandboxId, death: Death) {
        let cause = cause(death);
        tracing::warn!(sandbox = %id, why = cause.describe(), "a sandbox ended by itself");
        let mut pause = super::backoff::Backoff::new();
        loop {
            match self.store.apply(id.clone(), Transition::Fail(cause.clone()), Timestamp::now()).await {
                Ok(_) => {
                    failpoint::hit("failure.written");
                    self.withdraw(id);
                    self.tasks.spawn(Arc::clone(self).persevere(id.clone()));
                    return;
                }
                // Somebody paused or ended it on purpose meanwhile.
                Err(cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) => return,
                Err(error) => {
                    let error = cabana_types::error::chain(&error);
                    tracing::error!(sandbox = %id, error, "could not write that a sandbox died; trying again");
                    if !pause.wait(&self.stopping).await {
                        return;
                    }
                }
            }
        }
    }

    async fn note_oom(&self, id: &SandboxId, new: u64, total: u64) {
        let details = serde_json::json!({ "oomKills": new, "oomKillsTotal": total });
        if let Err(error) = self.store.note(id.clone(), "oom", details, Timestamp::now()).await {
            let error = cabana_types::error::chain(&error);
            tracing::warn!(sandbox = %id, error, "could not note that a sandbox ran out of memory");
        }
    }
}

/// A death as the store knows it.
pub(super) fn cause(death: Death) -> EndCause {
    match death {
        Death::OutOfMemory => EndCause::OutOfMemory,
        Death::Died => EndCause::GuestDied,
    }
}
