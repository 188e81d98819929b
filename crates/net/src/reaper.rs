//! The thread that deletes slots, many at a time: the kernel takes as long for a batch as for one. A slot is never
//! handed to a second sandbox, for its namespace remembers (counters, sockets that linger, learnt routes).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use cabana_types::error::chain;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use crate::ledger::Ledger;
use crate::links::Links;
use crate::plan::Plan;
use crate::rules::{FLOWS, OFFLINE, QUERIES};
use crate::{Error, namespace, netfilter};

/// After which a slot that could not be deleted is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// Links deleted by one request: the kernel holds the lock on all links meanwhile.
const BATCH: usize = 64;

struct Job {
    indexes: Vec<u32>,
    reply: Option<oneshot::Sender<Result<(), Error>>>,
}

/// Where slots are handed in. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Reaper {
    // Never more than the number of slots.
    jobs: mpsc::UnboundedSender<Job>,
}

impl Reaper {
    /// Starts the thread in the calling thread's namespace.
    pub(crate) fn start(plan: Arc<Plan>, ledger: Arc<Ledger>) -> Result<Reaper, Error> {
        let (jobs, orders) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::io("make the runtime of the slot reaper"))?;
        std::thread::Builder::new()
            .name("net-reaper".to_owned())
            .spawn(move || runtime.block_on(work(plan, ledger, orders)))
            .map_err(Error::io("start the slot reaper"))?;
        Ok(Reaper { jobs })
    }

    /// Hands in slots that the ledger calls dying; it is told when they are gone.
    pub(crate) fn take(&self, indexes: Vec<u32>) -> Result<(), Error> {
        if indexes.is_empty() {
            return Ok(());
        }
        self.jobs.send(Job { indexes, reply: None }).map_err(|_| Error::Closed)
    }

    /// The same, and waits for the first try.
    pub(crate) async fn take_now(&self, indexes: Vec<u32>) -> Result<(), Error> {
        let (reply, done) = oneshot::channel();
        self.jobs.send(Job { indexes, reply: Some(reply) }).map_err(|_| Error::Closed)?;
        done.await.map_err(|_| Error::Closed)?
    }
}

async fn work(plan: Arc<Plan>, ledger: Arc<Ledger>, mut orders: mpsc::UnboundedReceiver<Job>) {
    let links = match Links::open() {
        Ok(links) => links,
        Err(e) => return error!(error = chain(&e), "the slot reaper cannot start"),
    };
    let mut again: BTreeSet<u32> = BTreeSet::new();
    loop {
        let next = if again.is_empty() {
            orders.recv().await.map(Some)
        } else {
            tokio::time::timeout(RETRY, orders.recv()).await.map_or(Some(None), |job| job.map(Some))
        };
        let Some(first) = next else { return };
        let mut doomed: BTreeSet<u32> = std::mem::take(&mut again);
        let mut replies = Vec::new();
        for job in first.into_iter().chain(std::iter::from_fn(|| orders.try_recv().ok())) {
            doomed.extend(job.indexes);
            replies.extend(job.reply);
        }
        let mut errors = Vec::new();
        for batch in doomed.into_iter().collect::<Vec<_>>().chunks(BATCH) {
            delete(&plan, &links, &ledger, batch, &mut again, &mut errors).await;
        }
        for e in &errors {
            warn!(error = chain(e), "deleting a network slot; it is tried again");
        }
        let mut outcome = Error::collect(errors);
        for reply in replies {
            // Who no longer waits does not mind.
            let _ = reply.send(std::mem::replace(&mut outcome, Ok(())));
        }
    }
}

/// Deletes a batch; what could not be deleted is put into `again`.
async fn delete(
    plan: &Plan,
    links: &Links,
    ledger: &Ledger,
    batch: &[u32],
    again: &mut BTreeSet<u32>,
    errors: &mut Vec<Error>,
) {
    let names: Vec<String> = batch.iter().map(|&index| plan.link(index)).collect();
    let deleted = links.delete(&names, plan.doomed_group()).await;
    if let Err(e) = deleted.and_then(|()| leave_sets(plan, batch)) {
        errors.push(e);
        again.extend(batch);
        return;
    }
    for &index in batch {
        let failed = clear(plan, index);
        if failed.is_empty() {
            ledger.gone(index);
        } else {
            errors.extend(failed);
            again.insert(index);
        }
    }
}

/// Takes a batch out of the sets of the packet filter.
fn leave_sets(plan: &Plan, batch: &[u32]) -> Result<(), Error> {
    let table = plan.table();
    let leave = |set, indexes: &mut dyn Iterator<Item = &u32>| {
        let addresses: Vec<Ipv4Addr> = indexes.map(|&index| plan.address(index)).collect();
        netfilter::remove(&table, set, &addresses).map_err(Error::io("take sandboxes out of the packet filter"))
    };
    leave(FLOWS, &mut batch.iter())?;
    leave(QUERIES, &mut batch.iter())?;
    leave(OFFLINE, &mut batch.iter().filter(|&&index| plan.offline_mark(index).exists()))
}

/// Removes what else a slot leaves.
fn clear(plan: &Plan, index: u32) -> Vec<Error> {
    let steps = [
        namespace::unpin(&plan.pin(index)),
        netfilter::forget_flows(plan.address(index)).map_err(Error::io("forget the connections of a sandbox")),
        namespace::remove(&plan.offline_mark(index)),
    ];
    steps.into_iter().filter_map(Result::err).collect()
}
