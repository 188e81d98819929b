//! Polled watchers, and the limit on watches of both kinds.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cabana_proto::filesystem::FilesystemEvent;
use connectrpc::ConnectError;
use tokio::task::AbortHandle;

use crate::guest::lock;
use crate::watch::Watch;

/// Limit on watches, streamed and polled; the kernel allows 128 inotify instances by default.
const MAX_WATCHES: usize = 100;
/// Limit on queued events per watcher.
const MAX_QUEUED: usize = 8192;
/// A watcher that was not polled for this long may be replaced by a new one.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Queue {
    events: VecDeque<FilesystemEvent>,
    error: Option<ConnectError>,
}

struct Watcher {
    queue: Arc<Mutex<Queue>>,
    task: AbortHandle,
    polled: Instant,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Default)]
pub(crate) struct Watchers {
    polled: Mutex<HashMap<String, Watcher>>,
    permits: Arc<AtomicUsize>,
    next: AtomicUsize,
}

/// Permit for one watch.
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watchers {
    /// Acquires a permit for a watch.
    pub(crate) fn permit(&self) -> Result<Permit, ConnectError> {
        if self.permits.load(Ordering::Relaxed) >= MAX_WATCHES {
            lock(&self.polled).retain(|_, w| w.polled.elapsed() < ABANDONED_AFTER);
        }
        let permit = Permit(Arc::clone(&self.permits));
        if self.permits.fetch_add(1, Ordering::Relaxed) >= MAX_WATCHES {
            return Err(ConnectError::resource_exhausted(format!("{MAX_WATCHES} watches are open; remove some first")));
        }
        Ok(permit)
    }

    /// Registers a watch for polling and returns its id.
    pub(crate) fn add(&self, mut watch: Watch, permit: Permit) -> String {
        let id = format!("w{:08x}", self.next.fetch_add(1, Ordering::Relaxed));
        let queue = Arc::new(Mutex::new(Queue::default()));
        let filled = Arc::clone(&queue);
        let task = tokio::spawn(async move {
            let _permit = permit;
            loop {
                let next = watch.next().await;
                let mut queue = lock(&filled);
                match next {
                    Ok(event) if queue.events.len() < MAX_QUEUED => queue.events.push_back(event),
                    Ok(_) => {
                        queue.error = Some(ConnectError::data_loss("too many events between polls: some were lost"));
                    }
                    Err(error) => {
                        queue.error = Some(error);
                        return;
                    }
                }
            }
        });
        let watcher = Watcher { queue, task: task.abort_handle(), polled: Instant::now() };
        lock(&self.polled).insert(id.clone(), watcher);
        id
    }

    /// Takes the queued events of a watcher; an error is returned only after the events before it.
    pub(crate) fn take(&self, id: &str) -> Result<Vec<FilesystemEvent>, ConnectError> {
        let mut polled = lock(&self.polled);
        let watcher = polled.get_mut(id).ok_or_else(|| not_found(id))?;
        watcher.polled = Instant::now();
        let mut queue = lock(&watcher.queue);
        if queue.events.is_empty()
            && let Some(error) = queue.error.take()
        {
            return Err(error);
        }
        Ok(queue.events.drain(..).collect())
    }

    /// Removes a watcher.
    pub(crate) fn remove(&self, id: &str) -> Result<(), ConnectError> {
        lock(&self.polled).remove(id).map(drop).ok_or_else(|| not_found(id))
    }
}

fn not_found(id: &str) -> ConnectError {
    ConnectError::not_found(format!("watcher with id '{}' not found", crate::auth::truncated(id)))
}
