//! A session of a person, as every request of it is checked.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{PoisonError, RwLock};

use cabana_store as store;
use cabana_types::{KeyId, SessionId, TeamId, UserId};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

/// A session ends after this time without a request.
pub(crate) const IDLE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Acts that hand out access want a person who proved within this time who they are.
pub(crate) const FRESH: SignedDuration = SignedDuration::from_hours(1);
/// It ends after this time in any case.
pub(crate) const LONGEST: SignedDuration = SignedDuration::from_hours(90 * 24);

/// A session that has not ended.
#[derive(Debug)]
pub struct Session {
    pub id: SessionId,
    pub user: UserId,
    /// The team that it acts for where a request names none.
    team: RwLock<TeamId>,
    /// The API key that it was signed in with.
    pub key: Option<KeyId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// Address of the client that signed in.
    pub address: Option<String>,
    /// Its `User-Agent`.
    pub agent: Option<String>,
    /// Cancelled when the session ends: what it has open is closed.
    pub ended: CancellationToken,
    /// When the person last proved who they are, in microseconds since 1970.
    auth_at: AtomicI64,
    /// Microseconds since 1970.
    last_seen: AtomicI64,
    /// What of it the store has.
    recorded: AtomicI64,
}

impl Session {
    pub(crate) fn new(row: &store::Session) -> Self {
        let seen = row.last_seen_at.as_microsecond();
        Self {
            id: row.id.clone(),
            user: row.user.clone(),
            team: RwLock::new(row.team.clone()),
            key: row.key.clone(),
            created_at: row.created_at,
            expires_at: row.expires_at,
            address: row.address.clone(),
            agent: row.agent.clone(),
            ended: CancellationToken::new(),
            auth_at: AtomicI64::new(row.auth_at.as_microsecond()),
            last_seen: AtomicI64::new(seen),
            recorded: AtomicI64::new(seen),
        }
    }

    /// The team that it acts for where a request names none.
    pub fn team(&self) -> TeamId {
        self.team.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_team(&self, team: TeamId) {
        *self.team.write().unwrap_or_else(PoisonError::into_inner) = team;
    }

    /// Whether the person proved lately who they are.
    pub fn is_fresh(&self) -> bool {
        let at = Timestamp::from_microsecond(self.auth_at.load(Ordering::Relaxed)).unwrap_or(self.created_at);
        Timestamp::now().duration_since(at) < FRESH
    }

    pub(crate) fn confirm(&self, at: Timestamp) {
        self.auth_at.store(at.as_microsecond(), Ordering::Relaxed);
    }

    /// When its last request was.
    pub fn last_seen(&self) -> Timestamp {
        Timestamp::from_microsecond(self.last_seen.load(Ordering::Relaxed)).unwrap_or(self.created_at)
    }

    /// Whether it has ended by itself.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        now >= self.expires_at || now.duration_since(self.last_seen()) >= IDLE
    }

    pub(crate) fn see(&self, now: Timestamp) {
        self.last_seen.fetch_max(now.as_microsecond(), Ordering::Relaxed);
    }

    /// When it was last seen, if the store does not know that yet.
    pub(crate) fn take_seen(&self) -> Option<Timestamp> {
        let seen = self.last_seen.load(Ordering::Relaxed);
        (self.recorded.swap(seen, Ordering::Relaxed) != seen).then(|| self.last_seen())
    }
}
