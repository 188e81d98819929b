//! Watchers that clients poll, and the limit on watches of both kinds.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cabana_proto::filesystem::FilesystemEvent;
use connectrpc::ConnectError;
use tokio::task::AbortHandle;

use crate::guest::lock;
use crate::watch::Watch;

/// Watches at once, streamed and polled; the kernel allows 128 by default.
const MAX_WATCHES: usize = 100;
/// Events that wait for a poll.
const MAX_QUEUED: usize = 8192;
/// A watcher that nobody polled for so long gives way to a new one.
const FORGOTTEN: Duration = Duration::from_secs(3600);

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

/// All watchers.
#[derive(Default)]
pub(crate) struct Watchers {
    polled: Mutex<HashMap<String, Watcher>>,
    places: Arc<AtomicUsize>,
    next: AtomicUsize,
}

/// A place under the limit.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watchers {
    /// Takes a place for a watch.
    pub(crate) fn place(&self) -> Result<Place, ConnectError> {
        if self.places.load(Ordering::Relaxed) >= MAX_WATCHES {
            lock(&self.polled).retain(|_, w| w.polled.elapsed() < FORGOTTEN);
        }
        let place = Place(Arc::clone(&self.places));
        if self.places.fetch_add(1, Ordering::Relaxed) >= MAX_WATCHES {
            return Err(ConnectError::resource_exhausted(format!("{MAX_WATCHES} watches are open; remove some first")));
        }
        Ok(place)
    }

    /// Keeps a watch for polling, and gives it a name.
    pub(crate) fn add(&self, mut watch: Watch, place: Place) -> String {
        let id = format!("w{:08x}", self.next.fetch_add(1, Ordering::Relaxed));
        let queue = Arc::new(Mutex::new(Queue::default()));
        let filled = Arc::clone(&queue);
        let task = tokio::spawn(async move {
            let _place = place;
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

    /// Takes the events of a watcher; an error only after the events that came before it.
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

    /// Ends a watcher.
    pub(crate) fn remove(&self, id: &str) -> Result<(), ConnectError> {
        lock(&self.polled).remove(id).map(drop).ok_or_else(|| not_found(id))
    }
}

fn not_found(id: &str) -> ConnectError {
    ConnectError::not_found(format!("watcher with id '{}' not found", crate::auth::shown(id)))
}
