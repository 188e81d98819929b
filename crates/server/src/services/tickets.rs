//! Tickets for entering a preview, and the views that they become. A ticket is valid once, for a minute, on one host, for one session.
//! A view is a signed text in a cookie of that host: it names the session, so that signing out ends it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_types::{SandboxId, Secret, SessionId};
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// How long a ticket is valid.
const LIFETIME: Duration = Duration::from_secs(60);
/// Tickets that are valid at once; beyond that the oldest are dropped.
const MAX_TICKETS: usize = 10_000;
/// Seconds that a view lasts; then the console is asked again.
pub(super) const VIEW_SECONDS: u64 = 7 * 24 * 3600;
/// Longer texts are not ours.
const MAX_TEXT: usize = 256;

/// What a ticket is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) sandbox: SandboxId,
    pub(crate) port: u16,
    pub(crate) session: SessionId,
    /// The console that asked for it, if the page is to be shown in a frame of it.
    pub(crate) framed_by: Option<String>,
    /// Whether it stands for a grant instead of a view.
    pub(crate) is_fallback: bool,
}

/// Tickets in memory: after a restart people just click again.
#[derive(Debug)]
pub(crate) struct Tickets {
    key: Secret,
    valid: Mutex<HashMap<[u8; 32], (Instant, Ticket)>>,
}

impl Tickets {
    pub(crate) fn new(key: Secret) -> Self {
        Self { key, valid: Mutex::default() }
    }

    /// Makes a ticket.
    pub(crate) fn make(&self, ticket: Ticket) -> Secret {
        let text = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        let mut valid = self.valid();
        valid.retain(|_, (made, _)| made.elapsed() < LIFETIME);
        if valid.len() >= MAX_TICKETS
            && let Some(oldest) = valid.iter().min_by_key(|(_, (made, _))| *made).map(|(hash, _)| *hash)
        {
            valid.remove(&oldest);
        }
        valid.insert(Sha256::digest(&text).into(), (Instant::now(), ticket));
        Secret::new(text)
    }

    /// Uses a ticket up. One that is for another host is used up, too: somebody tries what they should not.
    pub(super) fn take(&self, text: &str, sandbox: &SandboxId, port: u16, is_fallback: bool) -> Option<Ticket> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let hash: [u8; 32] = Sha256::digest(text).into();
        let (made, ticket) = self.valid().remove(&hash)?;
        let fits = made.elapsed() < LIFETIME
            && ticket.sandbox == *sandbox
            && ticket.port == port
            && ticket.is_fallback == is_fallback;
        fits.then_some(ticket)
    }

    /// The text of a view's cookie.
    pub(super) fn view(&self, session: &SessionId, sandbox: &SandboxId, port: u16) -> Secret {
        let seconds = i64::try_from(VIEW_SECONDS).unwrap_or(i64::MAX);
        let until = Timestamp::now().as_second().saturating_add(seconds);
        let mac = self.mac(session.as_str(), sandbox, port, until).finalize().into_bytes();
        Secret::new(format!("{session}.{until}.{}", URL_SAFE_NO_PAD.encode(mac)))
    }

    /// The session of a view of this host.
    pub(super) fn session_of(&self, view: &str, sandbox: &SandboxId, port: u16) -> Option<SessionId> {
        if view.len() > MAX_TEXT {
            return None;
        }
        let mut parts = view.splitn(3, '.');
        let (session, until, mac) = (parts.next()?, parts.next()?, parts.next()?);
        let until: i64 = until.parse().ok()?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        self.mac(session, sandbox, port, until).verify_slice(&mac).ok()?;
        (until > Timestamp::now().as_second()).then(|| session.parse().ok()).flatten()
    }

    /// The secret of the grant for a session and a service: always the same, so that what a page stores stays.
    pub(crate) fn frame_secret(&self, session: &SessionId, service: &str) -> [u8; 32] {
        self.signed(&format!("frame\0{session}\0{service}")).finalize().into_bytes().into()
    }

    fn mac(&self, session: &str, sandbox: &SandboxId, port: u16, until: i64) -> Hmac<Sha256> {
        self.signed(&format!("view\0{session}\0{sandbox}\0{port}\0{until}"))
    }

    fn signed(&self, text: &str) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.key.expose().as_bytes()).unwrap_or_else(|_| unreachable!("any length"));
        mac.update(text.as_bytes());
        mac
    }

    fn valid(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Instant, Ticket)>> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(fallback: bool) -> Ticket {
        Ticket {
            sandbox: "iabc".parse().expect("id"),
            port: 80,
            session: SessionId::from_random([1; 20]),
            framed_by: None,
            is_fallback: fallback,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_is_valid_once_on_its_host_for_a_minute() {
        let tickets = Tickets::new(Secret::new("key"));
        let (own, other) = ("iabc".parse().expect("id"), "iabd".parse().expect("id"));
        let text = tickets.make(ticket(false));
        assert_eq!(tickets.take(text.expose(), &own, 80, false), Some(ticket(false)));
        assert_eq!(tickets.take(text.expose(), &own, 80, false), None, "used");
        for (sandbox, port, fallback) in [(&other, 80, false), (&own, 81, false), (&own, 80, true)] {
            let text = tickets.make(ticket(false));
            assert_eq!(tickets.take(text.expose(), sandbox, port, fallback), None);
            assert_eq!(tickets.take(text.expose(), &own, 80, false), None, "used up by the attempt");
        }
        let text = tickets.make(ticket(false));
        tokio::time::advance(LIFETIME).await;
        assert_eq!(tickets.take(text.expose(), &own, 80, false), None, "too late");
        assert_eq!(tickets.take("", &own, 80, false), None);
    }

    #[test]
    fn a_view_is_for_one_host_and_cannot_be_changed() {
        let tickets = Tickets::new(Secret::new("key"));
        let (own, other) = ("iabc".parse().expect("id"), "iabd".parse().expect("id"));
        let session = SessionId::from_random([1; 20]);
        let view = tickets.view(&session, &own, 80);
        assert_eq!(tickets.session_of(view.expose(), &own, 80), Some(session.clone()));
        assert_eq!(tickets.session_of(view.expose(), &other, 80), None);
        assert_eq!(tickets.session_of(view.expose(), &own, 81), None);
        assert_eq!(Tickets::new(Secret::new("other")).session_of(view.expose(), &own, 80), None);
        for place in 0..view.expose().len() {
            let mut text = view.expose().to_owned().into_bytes();
            text[place] ^= 1;
            let text = String::from_utf8_lossy(&text).into_owned();
            // The last character has bits that stand for nothing.
            assert!(place + 1 == text.len() || tickets.session_of(&text, &own, 80).is_none(), "{place}");
        }
        for wrong in ["", ".", "..", "a.1.b", &"x".repeat(1000)] {
            assert_eq!(tickets.session_of(wrong, &own, 80), None);
        }
    }

    #[test]
    fn a_session_has_one_name_for_a_service() {
        let tickets = Tickets::new(Secret::new("key"));
        let (one, other) = (SessionId::from_random([1; 20]), SessionId::from_random([2; 20]));
        assert_eq!(tickets.frame_secret(&one, "s"), tickets.frame_secret(&one, "s"));
        assert_ne!(tickets.frame_secret(&one, "s"), tickets.frame_secret(&one, "t"));
        assert_ne!(tickets.frame_secret(&one, "s"), tickets.frame_secret(&other, "s"));
        assert_ne!(tickets.frame_secret(&one, "s"), Tickets::new(Secret::new("x")).frame_secret(&one, "s"));
    }
}
