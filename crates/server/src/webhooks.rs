//! Sends events to webhooks. Each webhook has a queue in the store and gets one event at a time, in order; several webhooks
//! are served concurrently. No request waits for this: what a crash or a stop interrupts, the next start sends again.

mod sender;
mod signed_event;
mod target;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_store::{Attempt, PendingDelivery, Store, Verdict};
use cabana_supervisor::{Restart, Supervisor, TaskSet};
use cabana_types::WebhookId;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::Webhooks;
use sender::{DeliveryError, Sender};
pub use target::{InvalidTarget, Target};

/// Webhooks served at the same time.
const AT_ONCE: usize = 32;
/// Events after which a webhook yields to others.
const TURN: usize = 50;
/// Maximum number of attempts for one event. With a first delay of 5 s that is about 5 hours.
const MOST_TRIES: u32 = 15;
/// Older events are not retried.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);
/// The longest delay after a failure, without jitter.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);
/// Delay after a failed read or write of the store.
const STORE_RETRY: Duration = Duration::from_secs(60);
/// How long deliveries may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Delivers events to webhooks.
#[derive(Debug)]
pub struct Courier {
    store: Store,
    sender: Sender,
    first_delay: Duration,
    /// Webhooks that are being served.
    busy: Mutex<HashSet<WebhookId>>,
    /// Notified when a webhook is no longer being served.
    freed: Notify,
    deliveries: TaskSet,
    dispatcher: Supervisor,
}

impl Courier {
    /// Starts delivering, beginning with queued events.
    pub fn start(store: Store, config: &Webhooks, supervisor: &Supervisor) -> Arc<Self> {
        let courier = Arc::new(Self {
            store,
            sender: Sender::new(config.allow_private, Duration::from_secs(u64::from(config.timeout_seconds))),
            first_delay: Duration::from_secs(u64::from(config.retry_seconds)),
            busy: Mutex::default(),
            freed: Notify::new(),
            deliveries: TaskSet::new(),
            dispatcher: supervisor.scope(),
        });
        let running = Arc::clone(&courier);
        // Restarted without limit: an event that makes it panic must not take the API down.
        courier
            .dispatcher
            .restart("webhook dispatcher", Restart::forever(), move |stop| Arc::clone(&running).run(stop));
        courier
    }

    /// Stops. Deliveries in progress count as not sent.
    pub async fn stop(&self) {
        self.dispatcher.stop(STOP_TIMEOUT).await;
        if !self.deliveries.stop(STOP_TIMEOUT).await {
            tracing::warn!("some deliveries to webhooks did not stop");
        }
    }

    async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let delay = match self.dispatch().await {
                Ok(delay) => delay,
                Err(error) => {
                    tracing::warn!(error = cabana_types::error::chain(&error), "could not read the queues of webhooks");
                    Some(STORE_RETRY)
                }
            };
            let due = async {
                match delay {
                    Some(delay) => tokio::time::sleep(delay).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.store.deliveries_added().notified() => {}
                () = self.freed.notified() => {}
                () = due => {}
            }
        }
    }

    /// Serves every webhook that is due and not being served. Returns the time until the next one is due.
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
            if let Some(served) = self.take(&queue.webhook) {
                self.deliveries.spawn("webhook delivery", served.deliver());
            }
        }
        Ok(next)
    }

    /// Marks a webhook as being served, unless too many are; [`Served`] notifies the dispatcher when it is dropped.
    fn take(self: &Arc<Self>, webhook: &WebhookId) -> Option<Served> {
        let mut busy = self.busy();
        let free = busy.len() < AT_ONCE && busy.insert(webhook.clone());
        free.then(|| Served { courier: Arc::clone(self), webhook: webhook.clone() })
    }

    fn busy(&self) -> MutexGuard<'_, HashSet<WebhookId>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the next event to a webhook. `false` if there is none, or it is not due.
    async fn deliver_next(&self, webhook: &WebhookId) -> Result<bool, cabana_store::Error> {
        let Some(delivery) = self.store.next_delivery(webhook).await? else { return Ok(false) };
        if !left(delivery.due_at, Timestamp::now()).is_zero() {
            return Ok(false);
        }
        let signed = signed_event::build(&delivery);
        let sent = tokio::select! {
            () = self.deliveries.stop_token().cancelled() => return Ok(false),
            sent = self.sender.send(&delivery.url, &signed) => sent,
        };
        let at = Timestamp::now();
        let verdict = match &sent {
            Ok(_) => Verdict::Delivered,
            Err(error) => self.judge(&delivery, error, at),
        };
        let (status, error) = match sent {
            Ok(status) => (Some(status), None),
            Err(error) => (error.status(), Some(error.to_text())),
        };
        log(&delivery, error.as_deref(), verdict);
        self.store.record_attempt(&delivery, Attempt { id: signed.id, status, error, at }, verdict).await?;
        Ok(true)
    }

    fn judge(&self, delivery: &PendingDelivery, error: &DeliveryError, at: Timestamp) -> Verdict {
        let jitter = 80 + rand::random::<u32>() % 41;
        let delay = delay(self.first_delay, delivery.failures) * jitter / 100;
        let due_at = SignedDuration::try_from(delay).ok().and_then(|delay| at.checked_add(delay).ok()).unwrap_or(at);
        let age = at.duration_since(delivery.event.at);
        if error.is_final() || delivery.tries + 1 >= MOST_TRIES || age >= OLDEST {
            Verdict::GivenUp(due_at)
        } else {
            Verdict::Again(due_at)
        }
    }
}

/// A webhook that is being served.
struct Served {
    courier: Arc<Courier>,
    webhook: WebhookId,
}

impl Served {
    async fn deliver(self) {
        for _ in 0..TURN {
            match self.courier.deliver_next(&self.webhook).await {
                Ok(true) => {}
                Ok(false) | Err(cabana_store::Error::Closed) => return,
                Err(error) => {
                    let error = cabana_types::error::chain(&error);
                    tracing::warn!(webhook = %self.webhook, error, "could not read or write the queue of a webhook");
                    // The receiver may have the event already: do not send it again and again.
                    tokio::select! {
                        () = self.courier.deliveries.stop_token().cancelled() => {}
                        () = tokio::time::sleep(STORE_RETRY) => {}
                    }
                    return;
                }
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.courier.busy().remove(&self.webhook);
        self.courier.freed.notify_one();
    }
}

fn log(delivery: &PendingDelivery, error: Option<&str>, verdict: Verdict) {
    let (webhook, event, kind) = (&delivery.webhook, &delivery.event.id, &delivery.event.kind);
    match (verdict, error) {
        (Verdict::GivenUp(_), Some(error)) => {
            tracing::warn!(%webhook, event, kind, error, "gave up delivering an event to a webhook");
        }
        // Once for each series of failures.
        (Verdict::Again(_), Some(error)) if delivery.failures == 0 => {
            tracing::info!(%webhook, event, kind, error, "the delivery of an event failed; retrying");
        }
        _ => tracing::debug!(%webhook, event, kind, error, "tried to deliver an event to a webhook"),
    }
}

/// The time left until `due_at`. If it is longer than any delay, the clock was set back since.
fn left(due_at: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = due_at.and_then(|at| Duration::try_from(at.duration_since(now)).ok()).unwrap_or_default();
    if left > LONGEST_DELAY * 5 / 4 { Duration::ZERO } else { left }
}

/// The delay after this many earlier failures in a row.
fn delay(first: Duration, failures: u32) -> Duration {
    first.saturating_mul(2u32.saturating_pow(failures)).min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_a_limit() {
        let first = Duration::from_secs(5);
        let seconds: Vec<u64> = (0..12).map(|n| delay(first, n).as_secs()).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
        assert_eq!(delay(first, u32::MAX), LONGEST_DELAY);
    }

    #[test]
    fn deliveries_continue_after_the_clock_was_set_back() {
        let now = Timestamp::now();
        assert_eq!(left(None, now), Duration::ZERO);
        assert_eq!(left(Some(now - SignedDuration::from_secs(5)), now), Duration::ZERO);
        assert_eq!(left(Some(now + SignedDuration::from_secs(5)), now), Duration::from_secs(5));
        assert_eq!(left(Some(now + SignedDuration::from_hours(48)), now), Duration::ZERO);
    }
}
