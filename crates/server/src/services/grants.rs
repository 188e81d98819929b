//! Grants in memory: the edge asks for them with every request. Revocation, expiry and sign-out have effect at once, also on what is open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use cabana_store::{Grant, GrantKind, Store};
use cabana_types::service::{MAX_LINKS, grant_label};
use cabana_types::{ActorId, GrantId, Secret, ServiceId, SessionId};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long the grant of a frame is valid after its last use.
const FRAME_LIFE: SignedDuration = SignedDuration::from_hours(12);
/// It is renewed when this much has passed.
const RENEW_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// How long ended grants are remembered, for people who ask.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Longest time between two looks for those that have expired: clocks are set.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Seconds between two deletions of old ones.
const SWEEP_EVERY: i64 = 3600;

/// All grants that are valid.
#[derive(Debug)]
pub(crate) struct Grants {
    store: Store,
    /// By the hash of the name, so that the time of a lookup tells nothing about names.
    by_hash: RwLock<HashMap<[u8; 32], Arc<GrantEntry>>>,
    /// When old ones were last deleted, in seconds since 1970.
    swept: AtomicI64,
    /// There is a new one, which may expire before all others.
    added: Notify,
}

/// A grant.
#[derive(Debug)]
pub(crate) struct GrantEntry {
    pub(crate) id: GrantId,
    pub(crate) service: ServiceId,
    pub(crate) kind: GrantKind,
    /// Cancelled when it is not valid any more.
    pub(crate) ended: CancellationToken,
    /// Microseconds since 1970.
    expires_at: AtomicI64,
    /// Uses that the store does not know of.
    opened: AtomicU64,
    last_opened: AtomicI64,
    is_renewed: AtomicU64,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("the service has {MAX_LINKS} links, as many as there may be")]
    TooMany,
    #[error(transparent)]
    Store(#[from] cabana_store::Error),
}

impl Grants {
    /// Loads the grants that are valid.
    pub(crate) async fn open(store: Store) -> Result<Self, cabana_store::Error> {
        let rows = store.grants(Timestamp::now()).await?;
        let by_hash = rows.into_iter().map(|row| (row.hash, Arc::new(GrantEntry::new(&row)))).collect();
        Ok(Self { store, by_hash: RwLock::new(by_hash), swept: AtomicI64::new(0), added: Notify::new() })
    }

    /// The grant with this name, if it is valid.
    pub(crate) fn get(&self, label: &str) -> Option<Arc<GrantEntry>> {
        let hash: [u8; 32] = Sha256::digest(label).into();
        let entry = self.read().get(&hash).cloned()?;
        entry.use_now(Timestamp::now()).then_some(entry)
    }

    /// Makes a link. Returns its row and its name.
    pub(crate) async fn make_link(
        &self,
        service: &ServiceId,
        by: &ActorId,
        seconds: u64,
    ) -> Result<(Grant, Secret), LinkError> {
        let now = Timestamp::now();
        let life = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        let by = Some(by.to_string());
        self.put(service, GrantKind::Link, grant_label(&rand::random()), by, now, now + life).await
    }

    /// The name of the frame of a person for a service, which is valid as long as the session.
    pub(crate) async fn frame(
        &self,
        service: &ServiceId,
        session: &SessionId,
        origin: String,
        secret: &[u8; 32],
    ) -> Result<Secret, LinkError> {
        let now = Timestamp::now();
        let label = grant_label(secret);
        let kind = GrantKind::Frame { session: session.clone(), origin };
        if let Some(known) = self.get(&label)
            && known.kind == kind
        {
            return Ok(Secret::new(label));
        }
        Ok(self.put(service, kind, label, None, now, now + FRAME_LIFE).await?.1)
    }

    async fn put(
        &self,
        service: &ServiceId,
        kind: GrantKind,
        label: String,
        created_by: Option<String>,
        created_at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<(Grant, Secret), LinkError> {
        let row = Grant {
            id: GrantId::from_random(rand::random()),
            hash: Sha256::digest(&label).into(),
            kind,
            service: service.clone(),
            created_at,
            created_by,
            expires_at,
            opened: 0,
            last_opened_at: None,
            revoked_at: None,
        };
        if !self.store.put_grant(row.clone(), MAX_LINKS).await? {
            return Err(LinkError::TooMany);
        }
        let replaced = self.write().insert(row.hash, Arc::new(GrantEntry::new(&row)));
        if let Some(replaced) = replaced {
            replaced.ended.cancel();
        }
        self.added.notify_one();
        Ok((row, Secret::new(label)))
    }

    /// Ends grants when they expire, until `stop`.
    pub(crate) async fn expire(&self, stop: CancellationToken) {
        loop {
            let now = Timestamp::now();
            self.end(|grant| grant.expires_at() <= now);
            let next = self.read().values().map(|grant| grant.expires_at()).min();
            let wait = next.map_or(LONGEST_WAIT, |next| next.duration_since(now).unsigned_abs().min(LONGEST_WAIT));
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.added.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Revokes a link. `None` if the service has no such link.
    pub(crate) async fn revoke(&self, service: &ServiceId, id: &GrantId) -> Result<Option<Grant>, cabana_store::Error> {
        let row = self.store.revoke_link(service.clone(), id.clone(), Timestamp::now()).await?;
        if let Some(row) = &row {
            self.end(|grant| grant.id == row.id);
        }
        Ok(row)
    }

    /// The service is gone, and its grants with it.
    pub(crate) fn service_removed(&self, service: &ServiceId) {
        self.end(|grant| grant.service == *service);
    }

    /// Cuts what is open by links to a service that has become private. The links stay: it may be opened to them again. One lock for all,
    /// so that a link that is revoked meanwhile does not come back.
    pub(crate) fn cut_links(&self, service: &ServiceId) {
        for grant in self.write().values_mut() {
            if grant.service == *service && grant.kind == GrantKind::Link {
                grant.ended.cancel();
                *grant = Arc::new(grant.again());
            }
        }
    }

    /// A page was opened by a grant.
    pub(crate) fn opened(&self, id: &GrantId) {
        if let Some(grant) = self.read().values().find(|grant| grant.id == *id) {
            grant.opened.fetch_add(1, Ordering::Relaxed);
            grant.last_opened.store(Timestamp::now().as_microsecond(), Ordering::Relaxed);
        }
    }

    /// Uses of a link that the store does not know of, and when the last one was.
    pub(crate) fn unrecorded(&self, id: &GrantId) -> (u64, Option<Timestamp>) {
        let grants = self.read();
        let Some(grant) = grants.values().find(|grant| grant.id == *id) else { return (0, None) };
        (grant.opened.load(Ordering::Relaxed), grant.last_opened())
    }

    /// Records uses, and forgets old ones.
    pub(crate) async fn record(&self) -> Result<(), cabana_store::Error> {
        let now = Timestamp::now();
        let used: Vec<_> = self.read().values().filter_map(|grant| grant.take_used()).collect();
        if !used.is_empty() {
            self.store.touch_grants(used).await?;
        }
        if now.as_second() - self.swept.load(Ordering::Relaxed) >= SWEEP_EVERY {
            self.store.remove_old_grants(now - REMEMBERED).await?;
            self.store.remove_old_chat_shares(now - REMEMBERED).await?;
            self.swept.store(now.as_second(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn end(&self, which: impl Fn(&GrantEntry) -> bool) {
        if !self.read().values().any(|grant| which(grant)) {
            return;
        }
        self.write().retain(|_, grant| {
            let ends = which(grant);
            if ends {
                grant.ended.cancel();
            }
            !ends
        });
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<[u8; 32], Arc<GrantEntry>>> {
        self.by_hash.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<[u8; 32], Arc<GrantEntry>>> {
        self.by_hash.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GrantEntry {
    fn new(row: &Grant) -> Self {
        Self {
            id: row.id.clone(),
            service: row.service.clone(),
            kind: row.kind.clone(),
            ended: CancellationToken::new(),
            expires_at: AtomicI64::new(row.expires_at.as_microsecond()),
            opened: AtomicU64::new(0),
            last_opened: AtomicI64::new(0),
            is_renewed: AtomicU64::new(0),
        }
    }

    /// The same grant, with nothing open.
    fn again(&self) -> Self {
        let copy = |value: &AtomicI64| AtomicI64::new(value.load(Ordering::Relaxed));
        Self {
            id: self.id.clone(),
            service: self.service.clone(),
            kind: self.kind.clone(),
            ended: CancellationToken::new(),
            expires_at: copy(&self.expires_at),
            opened: AtomicU64::new(self.opened.load(Ordering::Relaxed)),
            last_opened: copy(&self.last_opened),
            is_renewed: AtomicU64::new(self.is_renewed.load(Ordering::Relaxed)),
        }
    }

    fn expires_at(&self) -> Timestamp {
        Timestamp::from_microsecond(self.expires_at.load(Ordering::Relaxed)).unwrap_or(Timestamp::MIN)
    }

    fn last_opened(&self) -> Option<Timestamp> {
        let at = self.last_opened.load(Ordering::Relaxed);
        (at > 0).then(|| Timestamp::from_microsecond(at).ok()).flatten()
    }

    /// Whether it is valid now; one of a frame then lasts longer.
    fn use_now(&self, now: Timestamp) -> bool {
        let expires_at = self.expires_at();
        if expires_at <= now || self.ended.is_cancelled() {
            return false;
        }
        let renewed = now + FRAME_LIFE;
        if matches!(self.kind, GrantKind::Frame { .. }) && renewed.duration_since(expires_at) > RENEW_AFTER {
            self.expires_at.fetch_max(renewed.as_microsecond(), Ordering::Relaxed);
            self.is_renewed.store(1, Ordering::Relaxed);
        }
        true
    }

    /// What the store is to be told.
    fn take_used(&self) -> Option<(GrantId, u64, Option<Timestamp>, Timestamp)> {
        let opened = self.opened.swap(0, Ordering::Relaxed);
        let is_renewed = self.is_renewed.swap(0, Ordering::Relaxed) > 0;
        (opened > 0 || is_renewed).then(|| (self.id.clone(), opened, self.last_opened(), self.expires_at()))
    }
}
