//! Rates usage: a task that adds what was used to the sums and the ledger every minute, and soon after something ended. It also writes
//! from time to time that the machine is up.

use std::time::Duration;

use cabana_store::Store;
use cabana_supervisor::{Restart, Supervisor};
use cabana_types::error::chain;
use jiff::{SignedDuration, Timestamp};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::failpoint;

/// How often it is written that the machine is up, and what has ended is rated.
const EVERY: Duration = Duration::from_secs(10);
/// Rounds after which everything is rated.
const ROUNDS: u32 = 6;
/// Changes are written a little after their time; what is younger is not rated yet.
const LAG: SignedDuration = SignedDuration::from_secs(2);
/// Intervals that are rated in one transaction: others wait for it.
const AT_ONCE: u32 = 500;

/// Rates usage.
#[derive(Debug, Clone)]
pub(crate) struct Rater {
    store: Store,
}

impl Rater {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Starts the task.
    pub(crate) fn start(&self, supervisor: &Supervisor) {
        let rater = self.clone();
        supervisor.restart("rater", Restart::forever(), move |stop| rater.clone().run(stop));
    }

    async fn run(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut round = 0;
        while stop.run_until_cancelled(tick.tick()).await.is_some() {
            if let Err(error) = self.once(round % ROUNDS == 0).await {
                tracing::warn!(error = chain(&error), "could not rate usage; trying again soon");
                // Everything next time, whatever was missed.
                round = 0;
                continue;
            }
            round += 1;
        }
    }

    async fn once(&self, everything: bool) -> Result<(), cabana_store::Error> {
        let now = Timestamp::now();
        self.store.alive(now).await?;
        if everything {
            self.store.write_measured(now).await?;
        }
        failpoint::hit("rate.begin");
        loop {
            let rated = match everything {
                true => self.store.rate(now - LAG, AT_ONCE).await?,
                false => self.store.rate_closed(now - LAG, AT_ONCE).await?,
            };
            failpoint::hit("rate.written");
            if !rated.more {
                return Ok(());
            }
        }
    }
}
