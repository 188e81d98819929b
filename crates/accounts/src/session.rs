//! A session of a person, as every request of it is checked.

use std::sync::atomic::{AtomicI64, Ordering};

use cabana_store as store;
use cabana_types::{KeyId, Permission, Permissions, Role, SessionId, TeamId};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

/// A session ends after this time without a request.
pub(crate) const IDLE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// It ends after this time in any case.
pub(crate) const LONGEST: SignedDuration = SignedDuration::from_hours(90 * 24);

/// A session that has not ended.
#[derive(Debug)]
pub struct Session {
    pub id: SessionId,
    pub user: store::User,
    /// The team that it acts for.
    pub team: TeamId,
    /// The user's role in the team; none if they are no member of it.
    pub role: Option<Role>,
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
    /// Microseconds since 1970.
    last_seen: AtomicI64,
    /// What of it the store has.
    recorded: AtomicI64,
}

impl Session {
    pub(crate) fn new(row: &store::Session, user: store::User, role: Option<Role>) -> Self {
        let seen = row.last_seen_at.as_microsecond();
        Self {
            id: row.id.clone(),
            user,
            team: row.team.clone(),
            role,
            key: row.key.clone(),
            created_at: row.created_at,
            expires_at: row.expires_at,
            address: row.address.clone(),
            agent: row.agent.clone(),
            ended: CancellationToken::new(),
            last_seen: AtomicI64::new(seen),
            recorded: AtomicI64::new(seen),
        }
    }

    /// What the person may do in the team, and with the server. A session that was signed in with a key may do what the key may.
    pub fn permissions(&self) -> Permissions {
        let own = self.role.map_or(Permissions::NONE, Role::permissions);
        if self.user.admin { own.with(Permission::Admin) } else { own }
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
