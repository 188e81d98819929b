//! The sandbox that uses a slot: its policy, and what the policy denied.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cabana_types::egress::{Denial, Denials};
use cabana_types::{EgressPolicy, SandboxId};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::info;

use crate::Error;

/// Denials of one sandbox that are logged in each period; all are counted.
const LOGGED: u32 = 10;
const LOG_PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) owner: SandboxId,
    policy: watch::Sender<Arc<EgressPolicy>>,
    denied: Mutex<Denied>,
    /// Its policy is being applied for the first time.
    begins: Mutex<Option<JoinHandle<Result<(), Error>>>>,
}

#[derive(Debug, Default)]
struct Denied {
    denials: Denials,
    /// Packets by number of the rule that the kernel had counted when it was last asked.
    counted: BTreeMap<u32, u64>,
    /// Start of the period, denials logged in it, and denials since that were not.
    period: Option<Instant>,
    logged: u32,
    silent: u64,
}

impl Tenant {
    pub(crate) fn new(owner: SandboxId, policy: Arc<EgressPolicy>) -> Arc<Tenant> {
        Arc::new(Tenant {
            owner,
            policy: watch::Sender::new(policy),
            denied: Mutex::default(),
            begins: Mutex::default(),
        })
    }

    pub(crate) fn policy(&self) -> Arc<EgressPolicy> {
        Arc::clone(&self.policy.borrow())
    }

    pub(crate) fn set_policy(&self, policy: Arc<EgressPolicy>) {
        self.policy.send_replace(policy);
    }

    pub(crate) fn begins(&self, applying: JoinHandle<Result<(), Error>>) {
        *self.begins.lock().unwrap_or_else(PoisonError::into_inner) = Some(applying);
    }

    /// Waits until the policy is applied for the first time.
    pub(crate) async fn begun(&self) -> Result<(), Error> {
        let applying = self.begins.lock().unwrap_or_else(PoisonError::into_inner).take();
        match applying {
            Some(applying) => applying.await.map_err(|_| Error::Closed)?,
            None => Ok(()),
        }
    }

    /// Tells of changes of the policy; closed when the sandbox has left the slot.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<EgressPolicy>> {
        self.policy.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Denied> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn denials(&self) -> Denials {
        self.lock().denials.clone()
    }

    /// Counts and logs a denied attempt. The sandbox decides how many there are, so the log is limited.
    pub(crate) fn deny(&self, denial: Denial) {
        let mut denied = self.lock();
        if denied.period.is_none_or(|start| start.elapsed() >= LOG_PERIOD) {
            denied.period = Some(Instant::now());
            denied.logged = 0;
        }
        if denied.logged < LOGGED {
            denied.logged += 1;
            let not_logged = std::mem::take(&mut denied.silent);
            info!(
                sandbox = %self.owner,
                protocol = ?denial.protocol,
                destination = denial.destination,
                rule = denial.rule,
                not_logged,
                "denied a connection"
            );
        } else {
            denied.silent += 1;
        }
        denied.denials.add(denial);
    }

    /// Adds what the kernel counted: totals by number of the rule.
    pub(crate) fn count(&self, totals: impl Iterator<Item = (u32, u64)>, rule: impl Fn(u32) -> String) {
        let mut denied = self.lock();
        for (number, total) in totals {
            let before = denied.counted.insert(number, total).unwrap_or(0);
            // The kernel starts again from zero after its table was reloaded.
            let more = total.checked_sub(before).unwrap_or(total);
            if more > 0 {
                denied.denials.count(rule(number), more);
            }
        }
    }
}
