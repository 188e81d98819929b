//! Signing in and out. All sessions are in memory: a request costs no query, and signing out has effect at once.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cabana_store::{self as store, Store, User};
use cabana_types::{KeyId, Secret, SessionId, TeamId, UserId};
use jiff::{SignedDuration, Timestamp};

use crate::session::{LONGEST, Session};
use crate::token;

/// How long a code from the terminal is valid.
const CODE_LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// Kind of the ticket that such a code is.
const WELCOME: &str = "welcome";
/// Codes that are valid at the same time.
const MAX_CODES: u32 = 20;
/// Sessions of one user; beyond that the one that was not used for the longest time ends.
const MAX_SESSIONS: u32 = 100;
/// Name of the first admin, until they choose another.
const ADMIN: &str = "admin";
/// Characters of a `User-Agent` that are kept.
const MAX_AGENT: usize = 200;

/// Who is signed in.
#[derive(Debug)]
pub struct Accounts {
    store: Store,
    sessions: RwLock<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    /// By the hash of the token.
    by_hash: HashMap<[u8; 32], Arc<Session>>,
    by_id: HashMap<SessionId, Arc<Session>>,
}

impl Sessions {
    fn insert(&mut self, hash: [u8; 32], session: Arc<Session>) {
        self.by_id.insert(session.id.clone(), Arc::clone(&session));
        self.by_hash.insert(hash, session);
    }
}

/// What is kept of the client that signs in.
#[derive(Debug, Clone, Default)]
pub struct Client {
    pub address: Option<String>,
    pub agent: Option<String>,
}

/// A new session with its token, which is shown to nobody else.
#[derive(Debug)]
pub struct SignedIn {
    pub session: Arc<Session>,
    pub token: Secret,
}

/// Why somebody was not signed in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    #[error("the code is not valid: it was used, is older than ten minutes, or was never made")]
    InvalidCode,
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Accounts {
    /// Loads the sessions, and forgets those that are over.
    pub async fn open(store: Store) -> Result<Self, store::Error> {
        let now = Timestamp::now();
        let mut users: HashMap<UserId, User> = HashMap::new();
        let (mut sessions, mut over) = (Sessions::default(), Vec::new());
        for row in store.sessions().await? {
            if !users.contains_key(&row.user)
                && let Some(user) = store.user(&row.user).await?
            {
                users.insert(row.user.clone(), user);
            }
            let user = users.get(&row.user).filter(|user| user.disabled_at.is_none());
            let role = store.role(&row.team, &row.user).await?;
            match user.map(|user| Session::new(&row, user.clone(), role)).filter(|session| !session.is_over(now)) {
                Some(session) => sessions.insert(row.hash, Arc::new(session)),
                None => over.push(row.id),
            }
        }
        if !over.is_empty() {
            store.remove_sessions(over).await?;
        }
        Ok(Self { store, sessions: RwLock::new(sessions) })
    }

    /// Makes a code that signs the first admin in, once. It must reach them by a way that only the operator has.
    pub async fn make_code(&self) -> Result<(Secret, Timestamp), store::Error> {
        let code = token::generate();
        let now = Timestamp::now();
        let expires_at = now + CODE_LIFETIME;
        if let Some(hash) = token::hash(code.expose()) {
            self.store.insert_ticket(hash, WELCOME, now, expires_at, MAX_CODES).await?;
        }
        Ok((code, expires_at))
    }

    /// Uses a code up.
    pub async fn sign_in_by_code(&self, code: &str, team: TeamId, client: Client) -> Result<SignedIn, SignInError> {
        let hash = token::hash(code).ok_or(SignInError::InvalidCode)?;
        if !self.store.take_ticket(hash, WELCOME, Timestamp::now()).await? {
            return Err(SignInError::InvalidCode);
        }
        Ok(self.sign_in_admin(team, None, None, client).await?)
    }

    /// Signs in the holder of an API key, which was checked. The session ends when the key is deleted or expires.
    pub async fn sign_in_by_key(
        &self,
        key: KeyId,
        team: TeamId,
        expires_at: Option<Timestamp>,
        client: Client,
    ) -> Result<SignedIn, SignInError> {
        Ok(self.sign_in_admin(team, Some(key), expires_at, client).await?)
    }

    async fn sign_in_admin(
        &self,
        team: TeamId,
        key: Option<KeyId>,
        expires_at: Option<Timestamp>,
        client: Client,
    ) -> Result<SignedIn, store::Error> {
        let now = Timestamp::now();
        let first = User {
            id: UserId::from_random(rand::random()),
            email: None,
            name: ADMIN.into(),
            admin: true,
            created_at: now,
            disabled_at: None,
        };
        let user = self.store.ensure_admin(first, team.clone()).await?;
        let role = self.store.role(&team, &user.id).await?;
        let token = token::generate();
        let row = store::Session {
            id: SessionId::from_random(rand::random()),
            hash: token::hash(token.expose()).unwrap_or_default(),
            user: user.id.clone(),
            team,
            key,
            created_at: now,
            last_seen_at: now,
            expires_at: expires_at.map_or(now + LONGEST, |at| at.min(now + LONGEST)),
            address: client.address,
            agent: client.agent.map(|agent| agent.chars().take(MAX_AGENT).collect()),
        };
        self.store.insert_session(row.clone(), MAX_SESSIONS).await?;
        let session = Arc::new(Session::new(&row, user, role));
        let superfluous = {
            let mut sessions = self.write();
            sessions.insert(row.hash, Arc::clone(&session));
            oldest_beyond(&sessions, &session.user.id, MAX_SESSIONS as usize)
        };
        self.end(|other| superfluous.contains(&other.id));
        Ok(SignedIn { session, token })
    }

    /// The session of a token.
    pub fn session(&self, token: &str) -> Option<Arc<Session>> {
        let session = self.read().by_hash.get(&token::hash(token)?).cloned()?;
        let now = Timestamp::now();
        if session.is_over(now) {
            return None;
        }
        session.see(now);
        Some(session)
    }

    /// The session of an id, for what was derived from it. That it is asked for is no use of it.
    pub fn session_by_id(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.read().by_id.get(id).filter(|session| !session.is_over(Timestamp::now())).cloned()
    }

    /// The sessions of a user, newest first.
    pub fn sessions_of(&self, user: &UserId) -> Vec<Arc<Session>> {
        let mut sessions: Vec<_> =
            self.read().by_id.values().filter(|session| session.user.id == *user).cloned().collect();
        sessions.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.id.cmp(&b.id)));
        sessions
    }

    /// Ends a session of a user; `false` if there is none of that id. From then on its token is invalid.
    pub async fn sign_out(&self, user: &UserId, id: &SessionId) -> Result<bool, store::Error> {
        let found = self.read().by_id.values().any(|session| session.id == *id && session.user.id == *user);
        if found {
            // The row first: after a crash in between, the person may sign out again, but is not signed in again.
            self.store.remove_sessions(vec![id.clone()]).await?;
            self.end(|session| session.id == *id);
        }
        Ok(found)
    }

    /// Ends the sessions that were signed in with an API key.
    pub async fn key_removed(&self, key: &KeyId) -> Result<(), store::Error> {
        let of_key = |session: &Session| session.key.as_ref() == Some(key);
        let ids: Vec<SessionId> =
            self.read().by_id.values().filter(|session| of_key(session)).map(|session| session.id.clone()).collect();
        self.end(of_key);
        if ids.is_empty() { Ok(()) } else { self.store.remove_sessions(ids).await }
    }

    /// Records when sessions were used, and forgets those that are over.
    pub async fn record(&self) -> Result<(), store::Error> {
        let now = Timestamp::now();
        let (mut seen, mut over) = (Vec::new(), Vec::new());
        for session in self.read().by_id.values() {
            match session.is_over(now) {
                true => over.push(session.id.clone()),
                false => seen.extend(session.take_seen().map(|at| (session.id.clone(), at))),
            }
        }
        if !over.is_empty() {
            self.end(|session| over.contains(&session.id));
            self.store.remove_sessions(over).await?;
        }
        if seen.is_empty() { Ok(()) } else { self.store.touch_sessions(seen).await }
    }

    /// Forgets sessions and closes what they have open.
    fn end(&self, which: impl Fn(&Session) -> bool) {
        let mut sessions = self.write();
        sessions.by_hash.retain(|_, session| {
            let ends = which(session);
            if ends {
                session.ended.cancel();
            }
            !ends
        });
        sessions.by_id.retain(|_, session| !session.ended.is_cancelled());
    }

    fn read(&self) -> RwLockReadGuard<'_, Sessions> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Sessions> {
        self.sessions.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sessions of a user beyond the newest `most`, as the store removes them.
fn oldest_beyond(sessions: &Sessions, user: &UserId, most: usize) -> Vec<SessionId> {
    let mut own: Vec<_> = sessions.by_id.values().filter(|session| session.user.id == *user).collect();
    own.sort_by_key(|session| std::cmp::Reverse((session.last_seen(), session.created_at)));
    own.into_iter().skip(most).map(|session| session.id.clone()).collect()
}
