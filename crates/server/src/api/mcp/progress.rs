//! Progress of a call: the newest output of its command, at most twice a second. The command never waits for it: newer output replaces what
//! a slow client does not fetch.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cabana_agent::call::Observer;
use cabana_agent::computer::OutputStream;
use cabana_agent::output::fold;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Time between two notifications.
const EVERY: Duration = Duration::from_millis(500);
/// A command that prints nothing is reported after this time, so that neither client nor proxies take it for dead.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes of output in one notification.
const MAX_TAIL: usize = 2000;

/// The newest output.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<Vec<u8>>);

#[async_trait]
impl Observer for Newest {
    async fn output(&self, _: OutputStream, chunk: Bytes) {
        self.push(&chunk);
    }
}

impl Newest {
    fn push(&self, chunk: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let chunk = &chunk[chunk.len().saturating_sub(MAX_TAIL)..];
        let excess = (tail.len() + chunk.len()).saturating_sub(MAX_TAIL);
        tail.drain(..excess);
        tail.extend_from_slice(chunk);
    }

    /// The text since the last call, as a terminal would show it.
    fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // The beginning may be a part of a character.
        let torn = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
        fold(&String::from_utf8_lossy(&bytes[torn..])).trim_end().to_owned()
    }
}

/// Tells a client of a call.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    newest: Arc<Newest>,
    ticks: Interval,
    begin: Instant,
    told: Option<Instant>,
}

impl Progress {
    pub(super) fn new(peer: Peer<RoleServer>, token: ProgressToken, newest: Arc<Newest>) -> Self {
        let begin = Instant::now();
        let mut ticks = interval_at(begin + EVERY, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { peer, token, newest, ticks, begin, told: None }
    }

    /// Waits until it is time, and tells what there is to tell. Ends only if the client is gone.
    pub(super) async fn tell(&mut self) {
        loop {
            self.ticks.tick().await;
            let now = Instant::now();
            let text = self.newest.take();
            if text.is_empty() && self.told.is_some_and(|told| now - told < SILENCE) {
                continue;
            }
            let seconds = now - self.begin;
            let text = if text.is_empty() { format!("running for {} s", seconds.as_secs()) } else { text };
            // Time always grows, as the protocol wants of progress.
            let progress = ProgressNotificationParam::new(self.token.clone(), seconds.as_secs_f64()).with_message(text);
            self.told = Some(now);
            if self.peer.notify_progress(progress).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_output_is_kept() {
        let newest = Newest::default();
        newest.push(b"one\n");
        newest.push(b"\x1b[31mtwo\x1b[0m\n");
        assert_eq!(newest.take(), "one\ntwo");
        assert_eq!(newest.take(), "");
        newest.push(&[b'x'; 5000]);
        newest.push(b"end");
        let text = newest.take();
        assert!(text.len() == MAX_TAIL && text.ends_with("xend"), "{}", text.len());
        newest.push("ä".repeat(MAX_TAIL).as_bytes());
        newest.push(b"!");
        let text = newest.take();
        assert!(text.starts_with('ä') && text.ends_with("ä!"), "{text}");
        newest.push(b"\xff\x80\x80\x80\x80");
        assert_eq!(newest.take().chars().count(), 5);
    }
}
