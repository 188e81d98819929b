//! Sends events to webhooks. Each webhook has a queue in the store and is sent one event at a time, in their order; several webhooks are
//! served at once. Nothing here is waited for by anybody: what a crash or a stop interrupts, the next start sends again.

mod address;
mod letter;
mod post;
mod target;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_store::{Attempt, Parcel, Store, Verdict};
use cabana_types::WebhookId;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Webhooks;
use post::{Post, Undelivered};
pub use target::{InvalidTarget, Target};

/// Webhooks that are served at the same time.
const AT_ONCE: usize = 32;
/// Events after which a webhook makes room for others.
const TURN: usize = 50;
/// Tries of one event. With a first pause of 5 s that is about 5 hours.
const MOST_TRIES: u32 = 15;
/// An event that is older is not tried again.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);
/// The longest pause after a failure, but for its jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// How soon is tried again what the store could not answer or write.
const STORE_AGAIN: Duration = Duration::from_secs(60);
/// How long deliveries under way may take to notice that the server stops.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Brings events to webhooks.
#[derive(Debug)]
pub struct Courier {
    store: Store,
    post: Post,
    first_pause: Duration,
    /// Webhooks that are being served.
    busy: Mutex<HashSet<WebhookId>>,
    /// One of them is not any more.
    freed: Notify,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Courier {
    /// Starts with whatever waits.
    pub fn start(store: Store, config: &Webhooks) -> Arc<Self> {
        let courier = Arc::new(Self {
            store,
            post: Post::new(config.allow_private, Duration::from_secs(u64::from(config.timeout_seconds))),
            first_pause: Duration::from_secs(u64::from(config.retry_seconds)),
            busy: Mutex::default(),
            freed: Notify::new(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        });
        courier.tasks.spawn(Arc::clone(&courier).run());
        courier
    }

    /// Stops. What is under way counts as not sent.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_WAIT, self.tasks.wait()).await.is_err() {
            tracing::warn!("some deliveries to webhooks did not stop");
        }
    }

    async fn run(self: Arc<Self>) {
        loop {
            let pause = match self.dispatch().await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(error = cabana_types::error::chain(&error), "could not see what waits for webhooks");
                    Some(STORE_AGAIN)
                }
            };
            let due = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.store.deliveries_added().notified() => {}
                () = self.freed.notified() => {}
                () = due => {}
            }
        }
    }

    /// Serves every webhook that is due and not being served. Answers how long it is until another one is due.
    async fn dispatch(self: &Arc<Self>) -> Result<Option<Duration>, cabana_store::Error> {
        let (queues, now) = (self.store.queues().await?, Timestamp::now());
        let mut next: Option<Duration> = None;
        for queue in queues {
            let left = left(queue.due_at, now);
            if self.busy().contains(&queue.webhook) {
                continue;
            }
            if !left.is_zero() {
                next = Some(next.map_or(left, |n| n.min(left)));
                continue;
            }
            if let Some(place) = self.take(&queue.webhook) {
                self.tasks.spawn(place.serve());
            }
        }
        Ok(next)
    }

    /// A place for a webhook, unless all are taken; whoever leaves one wakes us.
    fn take(self: &Arc<Self>, webhook: &WebhookId) -> Option<Place> {
        let mut busy = self.busy();
        let free = busy.len() < AT_ONCE && busy.insert(webhook.clone());
        free.then(|| Place { courier: Arc::clone(self), webhook: webhook.clone() })
    }

    fn busy(&self) -> MutexGuard<'_, HashSet<WebhookId>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the next event to a webhook. `false` if there is none, or it is not due.
    async fn deliver_next(&self, webhook: &WebhookId) -> Result<bool, cabana_store::Error> {
        let Some(parcel) = self.store.next_parcel(webhook).await? else { return Ok(false) };
        if !left(parcel.due_at, Timestamp::now()).is_zero() {
            return Ok(false);
        }
        let letter = letter::write(&parcel);
        let sent = tokio::select! {
            () = self.stopping.cancelled() => return Ok(false),
            sent = self.post.send(&parcel.url, &letter) => sent,
        };
        let at = Timestamp::now();
        let verdict = match &sent {
            Ok(_) => Verdict::Delivered,
            Err(error) => self.judge(&parcel, error, at),
        };
        let (status, error) = match sent {
            Ok(status) => (Some(status), None),
            Err(error) => (error.status(), Some(error.to_text())),
        };
        tell(&parcel, error.as_deref(), verdict);
        self.store.attempted(&parcel, Attempt { id: letter.id, status, error, at }, verdict).await?;
        Ok(true)
    }

    fn judge(&self, parcel: &Parcel, error: &Undelivered, at: Timestamp) -> Verdict {
        let jitter = 80 + rand::random::<u32>() % 41;
        let pause = pause(self.first_pause, parcel.failures) * jitter / 100;
        let due_at = SignedDuration::try_from(pause).ok().and_then(|pause| at.checked_add(pause).ok()).unwrap_or(at);
        let age = at.duration_since(parcel.event.at);
        if error.is_final() || parcel.tries + 1 >= MOST_TRIES || age >= OLDEST {
            Verdict::GivenUp(due_at)
        } else {
            Verdict::Again(due_at)
        }
    }
}

/// Held while a webhook is served.
struct Place {
    courier: Arc<Courier>,
    webhook: WebhookId,
}

impl Place {
    async fn serve(self) {
        for _ in 0..TURN {
            match self.courier.deliver_next(&self.webhook).await {
                Ok(true) => {}
                Ok(false) | Err(cabana_store::Error::Closed) => return,
                Err(error) => {
                    let error = cabana_types::error::chain(&error);
                    tracing::warn!(webhook = %self.webhook, error, "could not read or write what waits for a webhook");
                    // The receiver may have the event already: it shall not get it again and again.
                    tokio::select! {
                        () = self.courier.stopping.cancelled() => {}
                        () = tokio::time::sleep(STORE_AGAIN) => {}
                    }
                    return;
                }
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.courier.busy().remove(&self.webhook);
        self.courier.freed.notify_one();
    }
}

fn tell(parcel: &Parcel, error: Option<&str>, verdict: Verdict) {
    let (webhook, event, kind) = (&parcel.webhook, &parcel.event.id, &parcel.event.kind);
    match (verdict, error) {
        (Verdict::GivenUp(_), Some(error)) => {
            tracing::warn!(%webhook, event, kind, error, "an event for a webhook was given up");
        }
        // Once for each time that it begins to fail.
        (Verdict::Again(_), Some(error)) if parcel.failures == 0 => {
            tracing::info!(%webhook, event, kind, error, "a webhook does not take an event; trying again");
        }
        _ => tracing::debug!(%webhook, event, kind, error, "an event for a webhook was tried"),
    }
}

/// How long until a time. One that is further away than any pause was set by a clock that has been put back since.
fn left(due_at: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = due_at.and_then(|at| Duration::try_from(at.duration_since(now)).ok()).unwrap_or_default();
    if left > LONGEST_PAUSE * 5 / 4 { Duration::ZERO } else { left }
}

/// The pause after so many failures in a row before this one.
fn pause(first: Duration, failures: u32) -> Duration {
    first.saturating_mul(2u32.saturating_pow(failures)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let first = Duration::from_secs(5);
        let seconds: Vec<u64> = (0..12).map(|n| pause(first, n).as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
        assert_eq!(pause(first, u32::MAX), LONGEST_PAUSE);
    }

    #[test]
    fn a_clock_that_was_put_back_stops_nobody() {
        let now = Timestamp::now();
        assert_eq!(left(None, now), Duration::ZERO);
        assert_eq!(left(Some(now - SignedDuration::from_secs(5)), now), Duration::ZERO);
        assert_eq!(left(Some(now + SignedDuration::from_secs(5)), now), Duration::from_secs(5));
        assert_eq!(left(Some(now + SignedDuration::from_hours(48)), now), Duration::ZERO);
    }
}
