//! Publishes and watches running sandboxes: one may run out of memory or stop by itself.

use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::{Death, Live, Vitals};
use cabana_store::Sandbox;
use cabana_supervisor::catch_panic;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::sandbox::{EndCause, Transition};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use super::held::Held;
use super::journal::{self, line_at};
use super::tasks::Backoff;
use crate::failpoint;

/// Least time between two events about killed processes: a sandbox can be out of memory all day long.
const NOTE_EVERY: Duration = Duration::from_secs(1);

impl Driver {
    /// Makes a running sandbox reachable, sets its deadline, and watches it. `booted`: just now. `oom_kills` are known already.
    pub(super) fn publish(self: &Arc<Self>, held: &Held, sandbox: &Sandbox, live: Live, booted: bool, oom_kills: u64) {
        let gone = self.routes.publish(sandbox, &live, booted);
        held.entry().start_meter(sandbox);
        self.trust_later(sandbox, &live.link);
        self.tasks.spawn("watch a sandbox", Arc::clone(self).watch(live, gone, oom_kills));
    }

    /// Watches a sandbox until it is gone, also after a panic. `oom_kills` are known already.
    async fn watch(self: Arc<Self>, live: Live, gone: CancellationToken, oom_kills: u64) {
        let mut backoff = Backoff::default();
        loop {
            let watched = self.watch_once(&live.id, live.vitals.clone(), &gone, oom_kills);
            let Err(reason) = catch_panic(watched).await else { return };
            tracing::error!(sandbox = %live.id, %reason, "watching the sandbox failed; restarting");
            if !self.tasks.wait(&mut backoff).await {
                return;
            }
        }
    }

    async fn watch_once(
        self: &Arc<Self>,
        id: &SandboxId,
        mut vitals: watch::Receiver<Vitals>,
        gone: &CancellationToken,
        mut oom_kills: u64,
    ) {
        loop {
            let now = *vitals.borrow_and_update();
            if let Some(death) = now.death {
                return self.died(id, death).await;
            }
            let noted = now.oom_kills > oom_kills;
            if noted {
                self.note_oom(id, now.oom_kills - oom_kills, now.oom_kills).await;
                oom_kills = now.oom_kills;
            }
            let changed = async {
                if noted {
                    tokio::time::sleep(NOTE_EVERY).await;
                }
                vitals.changed().await
            };
            tokio::select! {
                () = gone.cancelled() => return,
                () = self.tasks.stopping() => return,
                changed = changed => if changed.is_err() {
                    tracing::error!(sandbox = %id, "the backend stopped watching a running sandbox");
                    return self.died(id, Death::Died).await;
                }
            }
        }
    }

    async fn died(self: &Arc<Self>, id: &SandboxId, death: Death) {
        let cause = cause(death);
        tracing::warn!(sandbox = %id, why = cause.describe(), "the sandbox stopped by itself");
        self.keep_last_lines(id).await;
        let mut backoff = Backoff::default();
        loop {
            match self.apply(id, Transition::Fail(cause.clone())).await {
                Ok(_) => {
                    failpoint::hit("failure.written");
                    self.routes.withdraw(id);
                    self.tasks.spawn("drive a sandbox", Arc::clone(self).drive_until_settled(id.clone()));
                    return;
                }
                // It was paused or ended on purpose.
                Err(cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) => return,
                Err(error) => {
                    tracing::error!(sandbox = %id, error = chain(&error), "could not write that the sandbox failed; retrying");
                    if !self.tasks.wait(&mut backoff).await {
                        return;
                    }
                }
            }
        }
    }

    /// Keeps what is known of the journal of a guest that died.
    async fn keep_last_lines(&self, id: &SandboxId) {
        let lines = self.registry.get(id).and_then(|entry| entry.with_meter(|meter| meter.last_lines()));
        let Some(lines) = lines.filter(|lines| !lines.is_empty()) else { return };
        if let Err(error) = self.store.keep_last_lines(id.clone(), lines).await {
            tracing::warn!(sandbox = %id, error = chain(&error), "could not keep the last lines of the sandbox");
        }
    }

    async fn note_oom(&self, id: &SandboxId, new: u64, total: u64) {
        if let Some(entry) = self.registry.get(id) {
            let line = line_at(Timestamp::now(), &format!("Out of memory: {new} processes were killed"));
            // What was running then is what a person wants to know later.
            let lines = match (self.routes.get(id), entry.with_meter(|meter| meter.started_at())) {
                (Some(route), Some(since)) => journal::last_lines(&route.link, since).await,
                _ => None,
            };
            entry.with_meter(|meter| {
                if let Some(lines) = lines {
                    meter.replace_lines(lines);
                }
                meter.add_line(line);
            });
        }
        let details = serde_json::json!({ "oomKills": new, "oomKillsTotal": total });
        if let Err(error) = self.store.note(id.clone(), "oom", details, Timestamp::now()).await {
            tracing::warn!(sandbox = %id, error = chain(&error), "could not record that the sandbox ran out of memory");
        }
    }
}

/// The cause that the store records for a death.
pub(super) fn cause(death: Death) -> EndCause {
    match death {
        Death::OutOfMemory => EndCause::OutOfMemory,
        Death::Died => EndCause::GuestDied,
    }
}
