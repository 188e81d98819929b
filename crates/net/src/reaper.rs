//! The thread that deletes slots in batches: the kernel takes as long for a batch as for one. A slot is never
//! reused for a second sandbox, because its namespace keeps state (counters, lingering sockets, learnt routes).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cabana_supervisor::{Restart, Supervisor};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::addressing::Addressing;
use crate::builder::next;
use crate::filter::Filter;
use crate::ledger::Ledger;
use crate::links::Links;
use crate::{Error, namespace};
use cabana_types::error::chain;

/// Delay before a failed deletion is retried.
const RETRY: Duration = Duration::from_secs(2);
const RESTART: Restart = Restart::forever().delays(Duration::from_millis(100), Duration::from_secs(5));

/// Links deleted by one request: the kernel holds the global link lock for that time.
const BATCH: usize = 64;

struct Job {
    indexes: Vec<u32>,
    reply: Option<oneshot::Sender<Result<(), Error>>>,
}

/// Sends slots to the thread, which ends with the supervisor's scope.
#[derive(Debug)]
pub(crate) struct Reaper {
    // Bounded by the number of slots.
    jobs: mpsc::UnboundedSender<Job>,
}

/// State that a restarted thread takes over.
struct Queue {
    jobs: mpsc::UnboundedReceiver<Job>,
    /// Slots that are not deleted yet.
    pending: BTreeSet<u32>,
}

impl Reaper {
    /// Starts the thread in the calling thread's namespace.
    pub(crate) fn start(
        supervisor: &Supervisor,
        addressing: Arc<Addressing>,
        ledger: Arc<Ledger>,
        filter: Arc<Filter>,
    ) -> Result<Reaper, Error> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let queue = Arc::new(Mutex::new(Queue { jobs: queue, pending: BTreeSet::new() }));
        let home = Arc::new(namespace::current()?);
        supervisor.restart_thread("network slot reaper", RESTART, move |stop| {
            let (queue, home) = (Arc::clone(&queue), Arc::clone(&home));
            let (addressing, ledger, filter) = (Arc::clone(&addressing), Arc::clone(&ledger), Arc::clone(&filter));
            async move {
                let mut queue = queue.lock().await;
                // A restarted thread inherits the namespace of the thread that started it.
                let opened = namespace::enter(&home).and_then(|()| Links::open());
                let links = opened.map_err(|e| chain(&e))?;
                let machine = Machine { addressing, ledger, filter, links };
                work(&machine, &mut queue, &stop).await;
                Ok::<(), String>(())
            }
        });
        Ok(Reaper { jobs })
    }

    /// Deletes slots that are marked as dying in the background, and then removes them from the ledger.
    pub(crate) fn take(&self, indexes: Vec<u32>) -> Result<(), Error> {
        if indexes.is_empty() {
            return Ok(());
        }
        self.jobs.send(Job { indexes, reply: None }).map_err(|_| Error::Closed)
    }

    /// The same, and waits for the first attempt.
    pub(crate) async fn take_now(&self, indexes: Vec<u32>) -> Result<(), Error> {
        let (reply, done) = oneshot::channel();
        self.jobs.send(Job { indexes, reply: Some(reply) }).map_err(|_| Error::Closed)?;
        done.await.map_err(|_| Error::Interrupted)?
    }
}

/// What slots are deleted from.
struct Machine {
    addressing: Arc<Addressing>,
    ledger: Arc<Ledger>,
    filter: Arc<Filter>,
    links: Links,
}

async fn work(machine: &Machine, queue: &mut Queue, stop: &CancellationToken) {
    // Slots that were pending when the thread failed are retried at once.
    let mut retry = Duration::ZERO;
    loop {
        let first = if queue.pending.is_empty() {
            next(&mut queue.jobs, stop).await.map(Some)
        } else {
            tokio::time::timeout(retry, next(&mut queue.jobs, stop)).await.map_or(Some(None), |job| job.map(Some))
        };
        let Some(first) = first else { return };
        retry = RETRY;
        let mut replies = Vec::new();
        for job in first.into_iter().chain(std::iter::from_fn(|| queue.jobs.try_recv().ok())) {
            queue.pending.extend(job.indexes);
            replies.extend(job.reply);
        }
        let mut errors = Vec::new();
        for batch in queue.pending.iter().copied().collect::<Vec<_>>().chunks(BATCH) {
            delete(machine, batch, &mut queue.pending, &mut errors).await;
        }
        for e in &errors {
            warn!(error = chain(e), "deleting a network slot failed; retrying");
        }
        let mut outcome = Error::collect(errors);
        for reply in replies {
            // The caller may have been cancelled.
            let _ = reply.send(std::mem::replace(&mut outcome, Ok(())));
        }
    }
}

/// Deletes a batch and removes the deleted slots from `pending`.
async fn delete(machine: &Machine, batch: &[u32], pending: &mut BTreeSet<u32>, errors: &mut Vec<Error>) {
    let Machine { addressing, ledger, filter, links } = machine;
    let names: Vec<String> = batch.iter().map(|&index| addressing.link(index)).collect();
    let mut deleted = links.delete(&names, addressing.deletion_group()).await;
    if deleted.is_ok() {
        deleted = filter.clear(batch).await;
    }
    if let Err(e) = deleted {
        return errors.push(e);
    }
    for &index in batch {
        let failed = clear(addressing, filter, index);
        if failed.is_empty() {
            pending.remove(&index);
            ledger.gone(index);
        }
        errors.extend(failed);
    }
}

/// Removes the other remains of a slot.
fn clear(addressing: &Addressing, filter: &Filter, index: u32) -> Vec<Error> {
    let steps = [namespace::unpin(&addressing.pin(index)), filter.forget_flows(index)];
    steps.into_iter().filter_map(Result::err).collect()
}
